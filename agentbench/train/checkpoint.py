"""Checkpoints: an ordinary transformers folder that any tool loads, with what a resumed run needs beside it.

    model.safetensors, config.json, tokenizer...   the policy
    critic.safetensors                             the value head
    optimizer.safetensors                          moments of Adam, by parameter
    trainer.json                                   counters; all randomness follows from them and the seed

A run keeps `last`, `best` (on the valid panel), and one checkpoint per stage, named after it. A folder is written under
another name and renamed when it is complete; the one before is set aside until then, so that a kill leaves one of them.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from agentbench.core.errors import IntegrityError, RecordError
from agentbench.core.records import write_json
from agentbench.policies.checkpoint import quietly
from agentbench.train.critic import ValueHead


@dataclass
class Counters:
    """Where a run stands. Everything random is derived from these and the root seed."""

    stage: int = 0
    update: int = 0
    """Updates done within the stage."""
    stage_finished: bool = False
    """The stage came to its end, by its budget or by success."""
    total_updates: int = 0
    episodes: int = 0
    tokens: int = 0
    kept: int = 0
    """Training episodes that were recorded."""
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    kl_coef: float = 0.0
    best_success: float = -1.0
    best: str | None = None
    """The checkpoint that did best on the valid panel."""
    stage_start: dict[str, float] = field(default_factory=dict)
    """The totals when the stage began; its budget counts from there."""


def save(
    folder: Path,
    model: Any,
    tokenizer: Any,
    head: ValueHead | None,
    optimizer: torch.optim.Optimizer,
    counters: Counters,
) -> None:
    """Write a checkpoint.

    Raises:
        RecordError: It cannot be written; an earlier one stays as it was.
    """
    with _written(folder) as scratch:
        _save_policy(scratch, model, tokenizer)
        if head is not None:
            save_file({name: tensor.contiguous() for name, tensor in head.state_dict().items()}, scratch / _CRITIC)
        save_file(_moments(optimizer), scratch / _OPTIMIZER)
        write_json(scratch / _COUNTERS, asdict(counters))


def save_reference(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write the policy alone.

    Raises:
        RecordError: It cannot be written.
    """
    with _written(folder) as scratch:
        _save_policy(scratch, model, tokenizer)


def find(folder: Path) -> Path | None:
    """Return a checkpoint, or the one before where a run was killed between the two; None where there is neither."""
    aside = _aside(folder)
    if not folder.exists() and (aside / _COUNTERS).is_file():
        aside.rename(folder)
    return folder if (folder / _COUNTERS).is_file() else None


def read_counters(folder: Path) -> Counters:
    """Return where the run stood that wrote a checkpoint.

    Raises:
        IntegrityError: They are missing or make no sense.
    """
    try:
        return Counters(**json.loads((folder / _COUNTERS).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise IntegrityError(f"the checkpoint {folder} cannot be loaded: {error}") from error


def restore(folder: Path, model: Any, head: ValueHead | None, optimizer: torch.optim.Optimizer) -> None:
    """Load a checkpoint into a model, a critic and an optimiser that were built alike.

    Raises:
        IntegrityError: A part is missing or does not fit.
    """
    try:
        shards = sorted(folder.glob("model*.safetensors"))  # one, or several of a large model
        weights = {name: tensor for shard in shards for name, tensor in load_file(shard).items()}
        result = model.load_state_dict(weights, strict=False)
        model.tie_weights()
        unknown = [*result.unexpected_keys, *(key for key in result.missing_keys if "lm_head" not in key)]
        if unknown:
            raise IntegrityError(f"{folder}: the weights do not fit the model ({', '.join(unknown[:3])})")
        if head is not None:
            head.load_state_dict(load_file(folder / _CRITIC))
        _restore_moments(optimizer, load_file(folder / _OPTIMIZER))
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        raise IntegrityError(f"the checkpoint {folder} cannot be loaded: {error}") from error


_CRITIC, _OPTIMIZER, _COUNTERS = "critic.safetensors", "optimizer.safetensors", "trainer.json"


@contextmanager
def _written(folder: Path) -> Iterator[Path]:
    """Lend a scratch folder; when it is complete, let it take the place of `folder`."""
    scratch, aside = folder.with_name(f".{folder.name}.partial"), _aside(folder)
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        yield scratch
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)
        scratch.rename(folder)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise RecordError(f"cannot write the checkpoint {folder}: {error}") from error


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.before")


def _save_policy(folder: Path, model: Any, tokenizer: Any) -> None:
    with quietly():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"{parameter}.{name}": torch.as_tensor(value).detach().clone().contiguous()
        for parameter, values in state.items()
        for name, value in values.items()
    }


def _restore_moments(optimizer: torch.optim.Optimizer, moments: dict[str, torch.Tensor]) -> None:
    whole = optimizer.state_dict()
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in moments.items():
        parameter, _, name = key.partition(".")
        state.setdefault(int(parameter), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})
