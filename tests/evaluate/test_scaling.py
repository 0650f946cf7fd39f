"""The table of budgets that follows from one run is the table of runs that really had those budgets."""

import math
from pathlib import Path
from typing import Any

from agentbench.core.records import RunDirectory
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.evaluate.scaling import Point, scale


def run(out: Path, **changes: Any) -> RunDirectory:
    values = {"model": "oracle", "env": "sokoban", "episodes": 30, "out": out, **changes}
    return RunDirectory.open(evaluate(EvalConfig.parse(values)).run_dir)


def points(directory: RunDirectory) -> dict[tuple[str, int], Point]:
    return {(point.budget, point.size): point for point in scale(directory.plan(), directory.rows())}


def test_success_under_a_turn_budget_is_that_of_a_run_with_this_cap(tmp_path: Path) -> None:
    table = points(run(tmp_path))
    sizes = [size for budget, size in table if budget == "turns"]
    assert sizes[:3] == [1, 2, 4]
    for size in sizes:
        capped = run(tmp_path, max_turns=size).state["summary"]
        point = table["turns", size]
        assert (point.mean, point.low, point.high) == (capped["success"], capped["low"], capped["high"])


def test_success_under_a_token_budget_is_at_most_that_of_a_run_with_this_limit(tmp_path: Path) -> None:
    from agentbench.testing import tiny_model

    env = tmp_path / "first_byte_env.py"
    env.write_text(FIRST_BYTE)
    common = {"model": str(tiny_model(tmp_path / "model")), "env": str(env), "max_tokens": 4, "temperature": 1.0}
    table = points(run(tmp_path, **common))
    largest = max(size for budget, size in table if budget == "tokens")
    assert 0 < table["tokens", largest].mean < 1
    for size in (1, 4, largest):
        limited = run(tmp_path, **common, token_limit=size).state["summary"]
        assert table["tokens", size].mean <= limited["success"]
    assert table["tokens", largest].mean == limited["success"]


FIRST_BYTE = """
from agentbench.core.env import Env, Step
from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec


class FirstByte(Env):
    def __init__(self, split="test"):
        self.split = split

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "say something short", {"success": False, "valid": True}

    def step(self, action):
        won = len(action) > 0 and ord(action[0]) % 3 == 0
        return Step("again", 0.0, won, False, {"success": won, "valid": True})


ENTRY = EnvEntry(
    name="first-byte",
    version=0,
    entry_point=":FirstByte",
    instructions="Speak.",
    max_turns=4,
    reward=RewardSpec(),
    variants={"one": Variant()},
)
"""


def test_best_of_n_grows_with_the_attempts(tmp_path: Path) -> None:
    table = points(run(tmp_path, model="random", env="sokoban/tiny", episodes=20, trials=4))
    best = [table["best of", size].mean for size in (1, 2, 4)]
    assert best == sorted(best)
    assert best[0] < best[-1]


def test_what_was_not_scored_counts_as_a_failure_under_every_budget(tmp_path: Path) -> None:
    directory = run(tmp_path)
    rows = directory.rows()[:20]
    table = scale(directory.plan(), rows)
    largest = max((point for point in table if point.budget == "turns"), key=lambda point: point.size)
    assert math.isclose(largest.mean, 20 / 30)
