"""`--sandbox` of `train` and `replay`: the same episodes wherever the code runs, and the lock says where."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.rollout.place import Kind
from agentbench.sandbox.engine import missing_engine
from agentbench.sandbox.process import missing_bubblewrap
from tests.cli.command import agentbench, assert_one_clear_line

ELSEWHERE = ["process", pytest.param("docker", marks=pytest.mark.alone)]
PROBLEMS = {"process": missing_bubblewrap, "docker": missing_engine}

RECIPE = """
model = "init:xs"
env = "sokoban/tiny"
algorithm = {name = "rloo"}
rollout = {episodes = 8, max_tokens = 4, max_turns = 3}
validation = {episodes = 4}
budget = {updates = 1}
device = "cpu"
"""


def skip_without(kind: Kind) -> None:
    problem = PROBLEMS[kind]()
    if problem:
        pytest.skip(problem)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_training_elsewhere_logs_the_very_numbers(kind: Kind, tmp_path: Path) -> None:
    skip_without(kind)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    logged, locks = [], []
    for place in ("none", kind):
        command = ["train", "--config", "recipe.toml", "--sandbox", place, "--out", place, "--json"]
        done = agentbench(*command, cwd=tmp_path)
        assert done.code == 0, done.err
        run = tmp_path / done.events[-1]["run_dir"]
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        logged.append([{name: value for name, value in row.items() if not timed(name)} for row in rows])
        locks.append(json.loads((run / "lock.json").read_text()))
    assert logged[0] == logged[1]
    assert "sandbox" not in locks[0]
    assert locks[1]["sandbox"]["kind"] == kind
    resumed = agentbench("train", "--resume", run, "--sandbox", "none", cwd=tmp_path)
    assert resumed.code == 0, resumed.err


def timed(name: str) -> bool:
    return name.startswith("time/") or "seconds" in name or "per_second" in name or "memory" in name


@pytest.mark.slow
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_run_replays_elsewhere_and_a_false_one_does_not(kind: Kind, tmp_path: Path) -> None:
    skip_without(kind)
    done = agentbench("eval", "-e", "sokoban/tiny", "-m", "random", "-n", 4, "--json", cwd=tmp_path)
    run = tmp_path / done.events[-1]["run_dir"]
    replayed = agentbench("replay", run, "--sandbox", kind, "--json", cwd=tmp_path)
    assert replayed.code == 0, replayed.err
    told: dict[str, Any] = replayed.events[-1]
    assert (told["replayed"], told["different"], told["sandbox"]["kind"]) == (4, 0, kind)
    state = json.loads((run / "run.json").read_text())
    state["config"]["seed"] = 1
    (run / "run.json").write_text(json.dumps(state))
    assert agentbench("replay", run, "--sandbox", kind, cwd=tmp_path).code == 7


def test_a_place_that_there_is_not_is_refused_by_every_verb(tmp_path: Path) -> None:
    done = agentbench("eval", "-e", "sokoban/tiny", "-m", "nop", "-n", 1, "--json", cwd=tmp_path)
    run = tmp_path / done.events[-1]["run_dir"]
    (tmp_path / "recipe.toml").write_text(RECIPE)
    for command in (["eval", "-e", "sokoban", "-m", "nop"], ["train", "-c", "recipe.toml"], ["replay", run]):
        assert_one_clear_line(agentbench(*command, "--sandbox", "cellar", cwd=tmp_path), 2, "cellar", "docker")
