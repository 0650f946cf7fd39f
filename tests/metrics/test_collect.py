"""From rows to the summary, with numbers worked by hand."""

from typing import Any

import pytest

from agentbench.core.records import Planned
from agentbench.metrics.collect import summarise
from agentbench.metrics.stats import mean_interval, wilson


def planned(task: str, trial: int = 0) -> Planned:
    return Planned(f"{task}.{trial}", task, 0, trial)


def row(key: str, success: bool | None, *, scored: bool = True, **more: Any) -> dict[str, Any]:
    failure = None if scored else {"cause": "environment", "message": ""}
    return {
        "key": key, "success": success, "scored": scored, "reward": 1.0, "turns": 2, "invalid": 0, "tokens": 10,
        "prompt_tokens": 30, "env_seconds": 0.5, "policy_seconds": 1.5, "end": "terminated" if scored else "failure",
        "failure": failure, **more,
    }  # fmt: skip


FOUR = [planned(task) for task in "abcd"]


def test_three_denominators() -> None:
    rows = [row("a.0", True), row("b.0", True), row("c.0", False), row("d.0", None, scored=False)]
    summary = summarise(FOUR, rows)
    assert summary["success"] == 0.5, "strict: 2 of 4 planned"
    assert summary["success_scored"] == pytest.approx(2 / 3), "2 of 3 scored"
    assert summary["coverage"] == 0.75
    assert (summary["planned"], summary["scored"], summary["n"]) == (4, 3, 4)
    assert (summary["low"], summary["high"], summary["method"]) == (*wilson(2, 4)[1:3], "wilson")
    assert summary["failures"] == {"environment": 1}
    assert summary["ends"] == {"terminated": 3}


def test_the_task_is_the_unit() -> None:
    plan = [planned(task, trial) for trial in range(2) for task in "abc"]
    rows = [row(f"a.{t}", True) for t in (0, 1)] + [row("b.0", True), row("b.1", False), row("c.0", False)]
    summary = summarise(plan, rows)
    assert summary["n"] == 3
    assert summary["success"] == pytest.approx((1 + 0.5 + 0) / 3)
    expected = mean_interval([1.0, 0.5, 0.0])
    assert (summary["low"], summary["high"]) == (max(0.0, expected.low), min(1.0, expected.high))
    assert summary["coverage"] == pytest.approx(5 / 6), "c.1 is missing"


def test_the_first_scored_row_of_a_key_counts_and_failures_do_not() -> None:
    rows = [row("a.0", None, scored=False), row("a.0", True, reward=5.0), row("a.0", False, reward=9.0)]
    summary = summarise([planned("a")], rows)
    assert (summary["success"], summary["reward"], summary["scored"]) == (1.0, 5.0, 1)
    assert summary["failures"] == {"environment": 1}


def test_rows_that_were_never_planned_do_not_raise_the_success() -> None:
    summary = summarise([planned("a")], [row("a.0", False), row("z.0", True)])
    assert summary["success"] == 0.0
    assert summary["scored"] == 1
    assert summary["coverage"] == 1.0
    assert summary["success_scored"] == 0.0


def test_means_are_over_scored_episodes_and_rates_over_turns() -> None:
    rows = [
        row("a.0", True, turns=1, invalid=1, tokens=4, prompt_tokens=10, reward=1.0, env_seconds=1.0),
        row("b.0", False, turns=3, invalid=0, tokens=8, prompt_tokens=30, reward=-2.0, policy_seconds=2.0),
        row("c.0", None, scored=False, turns=100, tokens=100, reward=100.0),
    ]
    summary = summarise(FOUR, rows)
    assert summary["turns"] == 2.0
    assert summary["invalid_rate"] == 0.25
    assert (summary["tokens"], summary["prompt_tokens"]) == (6.0, 20.0)
    assert summary["reward"] == -0.5
    expected = mean_interval([1.0, -2.0])
    assert (summary["reward_low"], summary["reward_high"]) == (expected.low, expected.high)
    assert (summary["env_seconds"], summary["policy_seconds"]) == (1.5, 3.5)


def test_an_environment_that_knows_no_success_has_none() -> None:
    summary = summarise(FOUR, [row(f"{task}.0", None) for task in "abcd"])
    assert summary["success"] is None and summary["low"] is None and summary["high"] is None
    assert summary["success_scored"] is None
    assert summary["coverage"] == 1.0
    assert summary["reward"] == 1.0


def test_a_run_that_scored_nothing_has_no_success_to_hide_behind() -> None:
    summary = summarise(FOUR, [row("a.0", None, scored=False)])
    assert summary["success"] == 0.0
    assert summary["coverage"] == 0.0
    assert summary["reward"] is None and summary["turns"] is None and summary["invalid_rate"] is None
    assert summarise(FOUR, [])["success"] == 0.0


def test_an_infinite_bound_is_no_number() -> None:
    summary = summarise([planned("a")], [row("a.0", True)])
    assert summary["reward"] == 1.0
    assert summary["reward_low"] is None and summary["reward_high"] is None


def test_the_order_of_rows_changes_nothing() -> None:
    rows = [row("a.0", True, reward=0.1), row("b.0", False, reward=0.2), row("c.0", True, reward=0.3)]
    assert summarise(FOUR, rows) == summarise(FOUR, rows[::-1])
