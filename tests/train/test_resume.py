"""A training run that was interrupted goes on exactly: the same metrics and the same weights, to the last bit."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from agentbench.core.errors import RecordError, UsageError
from agentbench.core.records import RunDirectory, read_lines
from agentbench.train.config import TrainConfig
from agentbench.train.loop import train

Recipe = Callable[..., TrainConfig]
UNTIMED = ("time/", "total/cpu_seconds")

STAGES: dict[str, Any] = {
    "algorithm": {"name": "turn-ppo"},
    "budget": {"updates": 4},
    "warm_start": {"updates": 3, "episodes": 16, "minibatches": 2},
    "value_pretraining": {"updates": 2, "episodes": 16, "minibatches": 2, "lr": 1e-3},
    "regularise": {"kl_coef": 0.01, "kl_target": 0.01, "entropy_coef": 0.001},
    "validation": {"every": 2, "episodes": 8},
    "threads": 1,
}


def numbers(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run, without its times."""
    return [
        {name: repr(value) for name, value in row.items() if not name.startswith(UNTIMED)}
        for row in read_lines(run / "metrics.jsonl")
    ]


def left(run: Path) -> tuple[list[str], list[str], list[dict[str, Any]]]:
    """What a run leaves besides metrics: checkpoints, shards, and kept episodes' rows without times and places."""
    directory = RunDirectory.open(run)
    for row in directory.rows():
        directory.trajectory(row)
    rows = [
        {name: value for name, value in row.items() if "seconds" not in name and name not in ("offset", "length")}
        for row in directory.rows()
    ]
    checkpoints, shards = (
        sorted(path.name for path in (run / name).iterdir()) for name in ("checkpoints", "trajectories")
    )
    return checkpoints, shards, rows


class _Stop(Exception):
    """Breaks a run off."""


@pytest.mark.slow
def test_two_runs_of_one_recipe_are_equal(fake: Callable[[str], str], recipe: Recipe) -> None:
    config = recipe(env=fake("ECHO"), **STAGES)
    first, second = train(config), train(config)
    assert numbers(first.run_dir) == numbers(second.run_dir)


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [3, 5, 7, 8])
def test_a_broken_off_run_goes_on_exactly(stop_at: int, fake: Callable[[str], str], recipe: Recipe) -> None:
    config = recipe(env=fake("ECHO"), **STAGES)
    whole = train(config)

    def stop(row: dict[str, Any]) -> None:
        if row["update"] == stop_at:
            raise _Stop

    with pytest.raises(_Stop):
        train(config, listen=stop)
    (broken,) = set(config.out.iterdir()) - {whole.run_dir}
    resumed = train(config, resume=broken)
    assert numbers(resumed.run_dir) == numbers(whole.run_dir)
    ours, theirs = (load_file(run.run_dir / "checkpoints/last/model.safetensors") for run in (resumed, whole))
    assert all(ours[name].equal(theirs[name]) for name in theirs)


BLOCKED = [(1, "warm-start"), (1, "last"), (2, "value-pretraining"), (3, "last"), (4, "turn-ppo"), (4, "last")]
"""After which update which checkpoint cannot be written."""


@pytest.mark.slow
def test_a_run_that_is_broken_off_between_any_two_files_is_whole_in_the_end(
    fake: Callable[[str], str], recipe: Recipe
) -> None:
    short = {"updates": 1, "episodes": 4, "minibatches": 1}
    changes = {"warm_start": short, "value_pretraining": short, "budget": {"updates": 2}}
    changes |= {"rollout": {"episodes": 4, "max_tokens": 8}, "validation": {"every": 1, "episodes": 2}}
    config = recipe(env=fake("ECHO"), **{**STAGES, **changes})
    whole = train(config).run_dir
    broken: Path | None = None
    for update, checkpoint in BLOCKED:

        def block(row: dict[str, Any], update: int = update, checkpoint: str = checkpoint) -> None:
            if row["update"] == update:
                (run,) = set(config.out.iterdir()) - {whole}
                (run / "checkpoints" / f".{checkpoint}.partial").touch()

        with pytest.raises(RecordError, match=checkpoint):
            train(config, resume=broken, listen=block)
        (broken,) = set(config.out.iterdir()) - {whole}
        (broken / "checkpoints" / f".{checkpoint}.partial").unlink()
    assert broken is not None
    train(config, resume=broken)
    assert numbers(broken) == numbers(whole)
    assert left(broken) == left(whole)


@pytest.mark.slow
def test_a_killed_process_goes_on_exactly(fake: Callable[[str], str], recipe: Recipe, tmp_path: Path) -> None:
    config = recipe(env=fake("ECHO"), **STAGES)
    whole = train(config)
    command = [sys.executable, "-m", "agentbench.cli", "train", "--config", str(whole.run_dir / "config.toml")]
    command += ["--out", str(tmp_path / "killed"), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("update") == 6:
                process.send_signal(signal.SIGKILL)
                break
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    (run,) = (tmp_path / "killed").iterdir()
    changed = config.model_copy(update={"out": tmp_path / "killed"})
    train(changed, resume=run)
    assert numbers(run) == numbers(whole.run_dir)


def test_another_recipe_is_refused_with_the_key_that_differs(fake: Callable[[str], str], recipe: Recipe) -> None:
    env = fake("ECHO")
    first = train(recipe(env=env, algorithm={"name": "sft"}))
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        train(recipe(env=env, algorithm={"name": "sft"}, seed=1), resume=first.run_dir)
