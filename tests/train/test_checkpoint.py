"""A checkpoint is there or it is not: whenever a run is killed, one that is complete can be found."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from agentbench.core.errors import IntegrityError
from agentbench.policies.checkpoint import Checkpoint, load_checkpoint
from agentbench.testing import tiny_model
from agentbench.train.checkpoint import Counters, find, read_counters, restore, save


class Killed(BaseException):
    """Not an Exception: nobody tidies up."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load_checkpoint(tiny_model(tmp_path_factory.mktemp("tiny")), device="cpu", dtype="float32")


def optimizer(checkpoint: Checkpoint) -> torch.optim.Optimizer:
    return torch.optim.AdamW(checkpoint.model.parameters())


def write(folder: Path, checkpoint: Checkpoint, update: int) -> None:
    save(folder, checkpoint.model, checkpoint.tokenizer, None, optimizer(checkpoint), Counters(update=update))


@pytest.mark.parametrize("renames", [0, 1])
def test_a_kill_between_two_checkpoints_leaves_the_one_before(
    renames: int, checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "last"
    write(folder, checkpoint, 1)
    left = iter(range(renames))
    real = os.rename

    def rename(*names: Any) -> None:
        if next(left, None) is None:
            raise Killed
        real(*names)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        with pytest.raises(Killed):
            write(folder, checkpoint, 2)
    found = find(folder)
    assert found is not None
    assert read_counters(found).update == 1
    restore(found, checkpoint.model, None, optimizer(checkpoint))
    write(folder, checkpoint, 3)
    assert read_counters(folder).update == 3
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_nothing_is_found_where_nothing_was_written(tmp_path: Path) -> None:
    assert find(tmp_path / "last") is None


def test_a_large_model_comes_back_from_its_shards(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "last"
    write(folder, checkpoint, 1)
    model: Any = checkpoint.model
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    weight = model.get_input_embeddings().weight
    wanted = weight.clone()
    with torch.no_grad():
        weight.zero_()
    restore(folder, model, None, optimizer(checkpoint))
    assert weight.equal(wanted)


def test_a_torn_file_is_an_integrity_error(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "last"
    write(folder, checkpoint, 1)
    for name in ("trainer.json", "optimizer.safetensors"):
        os.truncate(folder / name, 3)
    with pytest.raises(IntegrityError, match="cannot be loaded"):
        restore(folder, checkpoint.model, None, optimizer(checkpoint))
    with pytest.raises(IntegrityError, match="cannot be loaded"):
        read_counters(folder)
