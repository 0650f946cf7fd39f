"""A run that is killed without warning, again and again, loses nothing and repeats nothing."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentbench.core.records import RunDirectory
from agentbench.core.seeding import generator
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.evaluate.replay import replay, run_difference

PROGRAM = """
import sys
from pathlib import Path
from agentbench.evaluate.config import EvalConfig, read_toml
from agentbench.evaluate.evaluate import evaluate
source, resume = Path(sys.argv[1]), sys.argv[2:]
evaluate(EvalConfig.parse(read_toml(source)), resume=Path(resume[0]) if resume else None)
"""


def start(source: Path, *resume: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, str(source), *map(str, resume)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def lines(run: Path) -> int:
    episodes = run / "episodes.jsonl"
    return episodes.read_bytes().count(b"\n") if episodes.exists() else 0


def kill_at_a_random_moment(process: subprocess.Popen[bytes], run: Path, rng: np.random.Generator) -> None:
    """Let the process write some further rows, wait a moment more, and kill it."""
    enough = lines(run) + int(rng.integers(0, 6))
    while lines(run) < enough and process.poll() is None:
        time.sleep(0.002)
    time.sleep(float(rng.uniform(0, 0.03)))
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGKILL, 0), said.decode()


def killed_often(values: dict[str, Any], times: int) -> tuple[RunDirectory, list[int]]:
    """Start a run, kill it and each of its resumptions, and say how many rows each left behind."""
    rng = generator("kill", times)
    config = EvalConfig.parse(values)
    source = config.out.parent / "config.toml"
    source.write_text(config.write(source))
    process = start(source)
    while not (found := list(config.out.glob("*/run.json"))):
        assert process.poll() is None, "the run ended before it began"
        time.sleep(0.002)
    run = found[0].parent
    left = []
    for number in range(times):
        if number:
            process = start(source, run)
        kill_at_a_random_moment(process, run, rng)
        left.append(len(RunDirectory.open(run).rows()))
    return RunDirectory.open(run), left


def results(run: RunDirectory) -> dict[str, tuple[Any, ...]]:
    compared = ("task", "seed", "trial", "end", "success", "reward", "turns", "hash")
    return {row["key"]: tuple(row[name] for name in compared) for row in run.rows()}


def check_killed(config_of: Callable[..., dict[str, Any]], times: int) -> None:
    values = config_of("slow", model="random", episodes=6 * times, trials=2, jobs=3)
    run, left = killed_often(values, times)
    assert left == sorted(left), "a row was lost"
    assert sum(0 < rows < 12 * times for rows in left) > times / 2, f"the kills missed the middle: {left}"
    ended = evaluate(EvalConfig.parse(values), resume=run.path)
    assert ended.status == run.state["status"] == "complete"
    assert Counter(row["key"] for row in run.rows()) == Counter(planned.key for planned in run.plan())
    assert all(row["scored"] for row in run.rows())
    assert [each.difference for each in replay(run) if each.difference] == []
    assert run_difference(run) is None
    undisturbed = evaluate(EvalConfig.parse(values))
    assert results(run) == results(RunDirectory.open(undisturbed.run_dir))
    timeless = [key for key in ended.summary if not key.endswith("_seconds")]
    assert [ended.summary[key] for key in timeless] == [undisturbed.summary[key] for key in timeless]


def test_killed_five_times_and_resumed_every_episode_is_scored_once(config_of: Callable[..., dict[str, Any]]) -> None:
    check_killed(config_of, 5)


@pytest.mark.slow
def test_killed_twenty_times_and_resumed_every_episode_is_scored_once(
    config_of: Callable[..., dict[str, Any]], scale: float
) -> None:
    check_killed(config_of, max(6, round(20 * scale)))


def test_a_run_that_is_being_written_cannot_be_resumed_beside_itself(
    config_of: Callable[..., dict[str, Any]], out: Path, tmp_path: Path
) -> None:
    config = EvalConfig.parse(config_of("slow", episodes=2000))
    source = tmp_path / "config.toml"
    source.write_text(config.write(source))
    first = start(source)
    try:
        while not (found := list(out.glob("*/episodes.jsonl"))):
            assert first.poll() is None
            time.sleep(0.005)
        second = start(source, found[0].parent)
        _, said = second.communicate(timeout=60)
        assert second.returncode != 0
        assert "being written by another process" in said.decode()
        assert first.poll() is None, "the first run was disturbed"
    finally:
        first.kill()
        first.communicate()
