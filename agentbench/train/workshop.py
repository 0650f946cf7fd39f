"""What a training run works with: one model that is sampled from and learned on, its run directory, its counters."""

import copy
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import tomli_w
import torch

from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.core.policy import Policy
from agentbench.core.records import Planned, RunDirectory, read_lines, require_equal, write_json, write_text
from agentbench.core.seeding import derive
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.evaluate.lock import make_lock
from agentbench.policies.checkpoint import Checkpoint, free_memory, load_checkpoint
from agentbench.policies.hf import HFPolicy
from agentbench.policies.init import init_named
from agentbench.rollout.episode import Setting
from agentbench.rollout.launch import check_needs
from agentbench.rollout.pool import Played
from agentbench.train.checkpoint import Counters, find, read_counters, restore, save, save_reference
from agentbench.train.config import Regularise, TrainConfig
from agentbench.train.critic import ValueHead
from agentbench.train.forward import activation_bytes, check_reader, logit_bytes, recompute_layers
from agentbench.train.sft import Demonstrator, Recordings
from agentbench.train.stages import Clock, Stage, stages_of
from agentbench.train.update import Learner

Row = dict[str, Any]


class Workshop:
    """Everything that lasts as long as a run; a context manager.

    Args:
        config: The recipe.
        resume: A run directory to go on with, or None for a new one.
    """

    def __init__(self, config: TrainConfig, resume: Path | None = None) -> None:
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.config = config
        self.stages = stages_of(config)
        self._places = {split: config.place(split) for split in ("train", "valid")}
        if self._places["train"].kind != "docker":  # What the environment needs, its image has.
            check_needs(config.resolve_env())
        source = config.demonstrations
        self.recordings = None if source is None else Recordings(source, config.resolve_env())
        self.valid_plan = plan_tasks(
            config.resolve_env("valid"), config.validation.episodes, 1, config.seed, place=self._places["valid"]
        )
        self.run = _open(config, resume)
        try:
            self._set_up(resumed=resume is not None)
        except BaseException:
            if resume is None:  # What was refused leaves no run behind.
                shutil.rmtree(self.run.path)
            raise

    def _set_up(self, *, resumed: bool) -> None:
        """Load what the run works with, and find out where it stands."""
        config = self.config
        self.checkpoint = _load(config, self.run.path)
        self.model = self.checkpoint.model
        needs_critic = any(stage.algorithm.critic != "none" for stage in self.stages)
        self.head = ValueHead(_width(self.model), self.model.device) if needs_critic else None
        self.policy = HFPolicy(self._sampled(), batch_size=config.rollout.batch_size)
        self.counters = Counters(kl_coef=config.regularise.kl_coef)
        self.clock = Clock()
        # The head and the weights come with the optimiser, when the stage begins; a finished stage has no moments.
        self._pending = find(self.folder / "last")
        if self._pending is not None:
            self.counters = read_counters(self._pending)
        if resumed:
            self._forget_later()
        if self._pending is None:
            self._write_beginning()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.policy.close()

    def setting(self, split: str, *, temperature: float, seed: int) -> Setting:
        """What all episodes of an update or of a validation have in common."""
        return self.config.setting(split, temperature=temperature, seed=seed, place=self._places[split])

    def keep(self, episodes: Sequence[Played]) -> None:
        """Record some training episodes beside the metrics, for people to look at."""
        with self.run.writing() as writer:
            for planned, trajectory in episodes:
                writer.append(planned, trajectory)
        self.counters.kept += len(episodes)

    @property
    def folder(self) -> Path:
        """Where checkpoints are."""
        return self.run.path / "checkpoints"

    def begin(self, number: int) -> Stage:
        """Enter a stage: a new optimiser, and, for the main stage, the frozen reference.

        Only what the policy sampled is regularised; a demonstration is to be made likely, and nothing else.
        """
        stage = self.stages[number]
        is_main = number == len(self.stages) - 1
        reference = self._reference() if is_main and self.config.regularise.kl_coef > 0 else None
        head = self.head if stage.algorithm.critic != "none" else None
        self.learner = Learner(
            self.model,
            head,
            reference,
            Regularise() if stage.demonstrates else self.config.regularise,
            temperature=self.config.rollout.temperature,
            autocast=self._autocast,
        )
        self.policy.set_value_head(head)
        if self._pending is not None and self.counters.stage == number and self.counters.update > 0:
            restore(self._pending, self.model, self.head, self.learner.optimizer)
            self.learner.kl_coef = self.counters.kl_coef
            self.policy.update(self._publish)
        elif self.counters.stage != number or not self.counters.stage_start:
            self.counters.stage, self.counters.update, self.counters.stage_finished = number, 0, False
            self.counters.stage_start = {name: getattr(self.counters, name) for name in _TOTALS}
        self._pending = None
        return stage

    def player(self, stage: Stage) -> Policy:
        """Who plays in a stage."""
        if not stage.demonstrates:
            return self.policy
        return Demonstrator(self.policy.template, self.config.rollout.format, self.recordings)

    def publish(self) -> None:
        """Let the sampler use the new weights."""
        self.policy.update(self._publish)

    def log(self, row: Row) -> None:
        """Append a row to metrics.jsonl."""
        with (self.run.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def save(self, name: str) -> Path:
        """Write a checkpoint."""
        self.counters.kl_coef = self.learner.kl_coef
        path = self.folder / name
        save(path, self.model, self.checkpoint.tokenizer, self.head, self.learner.optimizer, self.counters)
        return path

    def write_state(self, status: str, **more: Any) -> None:
        """Rewrite run.json."""
        counters = {name: getattr(self.counters, name) for name in _TOTALS}
        best = {"checkpoint": self.counters.best, "valid_success": self.counters.best_success}
        algorithm = self.stages[-1].algorithm
        choices = [algorithm.name, *algorithm.choices(), *self.config.regularise.choices()]
        state = {"kind": "train", "status": status, "counts": counters, "best": best, "choices": choices}
        write_json(self.run.path / "run.json", {**state, "config": _plain(self.config), **more})

    @property
    def _autocast(self) -> torch.dtype | None:
        return torch.bfloat16 if self.config.dtype == "bfloat16" else None

    def _sampled(self) -> Checkpoint:
        """The sampler's model: the learner's own, or a copy in the sampler's precision."""
        if self._autocast is None:
            return self.checkpoint
        sampled: Any = copy.deepcopy(self.model)
        return replace(self.checkpoint, model=sampled.to(self._autocast))

    def _publish(self) -> None:
        sampled = self.policy.checkpoint.model
        if sampled is not self.model:
            with torch.no_grad():
                for theirs, ours in zip(sampled.parameters(), self.model.parameters(), strict=True):
                    theirs.copy_(ours)

    def _reference(self) -> Any:
        """A frozen copy of the policy as it entered the main stage; kept on disk for a resumed run."""
        path = self.folder / "reference"
        if not path.exists():
            save_reference(path, self.model, self.checkpoint.tokenizer)
        reference = load_checkpoint(path, device=str(self.model.device), dtype="float32").model
        return reference.requires_grad_(False)

    def _forget_later(self) -> None:
        """Drop what was logged and recorded after the moment where the run goes on."""
        metrics, episodes = self.run.path / "metrics.jsonl", self.run.path / "episodes.jsonl"
        _write_rows(metrics, [row for row in read_lines(metrics) if row["update"] <= self.counters.total_updates])
        kept = self.run.rows()[: self.counters.kept]
        _write_rows(episodes, kept)
        for shard in (self.run.path / "trajectories").iterdir():
            if shard.name not in {row["shard"] for row in kept}:
                shard.unlink()

    def _write_beginning(self) -> None:
        write_text(self.run.path / "config.toml", tomli_w.dumps(_plain(self.config)))
        setting = self.setting("train", temperature=self.config.rollout.temperature, seed=self.config.seed)
        lock = make_lock(setting, self.policy, _no_plan(), batch_size=self.config.rollout.batch_size)
        write_json(self.run.path / "lock.json", lock)
        self.write_state("started")


_TOTALS = ("total_updates", "episodes", "tokens", "cpu_seconds", "seconds")


def _plain(config: TrainConfig) -> Row:
    plain: Row = config.model_dump(mode="json", exclude_none=True)
    return plain


def _write_rows(path: Path, rows: Sequence[Row]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _no_plan() -> list[Planned]:
    return []


def _open(config: TrainConfig, resume: Path | None) -> RunDirectory:
    if resume is None:
        resolved = config.resolve_env()
        return RunDirectory.create(config.out, resolved.id, config.make_algorithm().name)
    run = RunDirectory.open(resume)
    # A run that was moved is the same run, and the same seeds give the same episodes in every place.
    harmless = dict.fromkeys(("out", "sandbox", "allow_unsandboxed"))
    before, now = ({**recipe, **harmless} for recipe in (run.state["config"], _plain(config)))
    require_equal(resume, "recipe", before, now)
    return run


def _load(config: TrainConfig, run: Path) -> Checkpoint:
    path: str | Path = config.model
    if config.model.startswith("init:"):
        # Always made anew: the seed decides the weights, and a run may have been killed while it wrote them.
        path = run / "checkpoints" / "initial"
        name = config.model.removeprefix("init:")
        init_named(name, path, words=config.words, seed=derive("weights", config.seed))
    checkpoint = load_checkpoint(path, device=config.device, dtype="float32")
    wrong = check_reader(checkpoint.model)
    if wrong is not None:
        raise UsageError(wrong)
    if config.gradient_checkpointing:
        recompute_layers(checkpoint.model)
    device = checkpoint.model.device
    share = 0.7 if device.type == "cuda" else 0.5  # of what is free, that `free_memory` leaves to caches
    activations = activation_bytes(checkpoint.model, config.optim.micro_tokens)
    if config.dtype == "bfloat16":  # At least half of it: what is computed in bfloat16 is kept so, norms are not.
        activations //= 2
    activations += logit_bytes(checkpoint.model, config.optim.micro_tokens)
    require_memory(_training_bytes(checkpoint.model, config), activations, int(free_memory(device) / share))
    return checkpoint


def require_memory(weights: int, activations: int, free: int) -> None:
    """Refuse a training run that cannot fit, before anything is spent.

    Args:
        weights: Bytes of gradients, moments and copies of the weights.
        activations: Bytes that one micro-batch keeps for its backward pass, and takes for its logits.
        free: Bytes that are there.

    Raises:
        PrerequisiteError: It is more than there is.
    """
    if weights + activations <= free:
        return
    advice = "a smaller model, or no reference (regularise.kl_coef = 0)"
    if activations > weights:
        advice = "a smaller optim.micro_tokens, gradient_checkpointing = true, or a smaller model"
    raise PrerequisiteError(
        f"training this model needs {weights / 2**30:.1f} GiB for gradients, moments and copies and "
        f"{activations / 2**30:.1f} GiB for the activations of a micro-batch, and {free / 2**30:.1f} GiB are free: "
        f"take {advice}"
    )


def _training_bytes(model: Any, config: TrainConfig) -> int:
    """Count what training adds to the loaded float32 weights."""
    weights = sum(int(parameter.numel()) for parameter in model.parameters())
    gradients_and_moments = 4 + 8
    reference = 4 if config.regularise.kl_coef else 0
    sampler = 2 if config.dtype == "bfloat16" else 0
    return weights * (gradients_and_moments + reference + sampler)


def _width(model: Any) -> int:
    return int(model.get_input_embeddings().weight.shape[1])
