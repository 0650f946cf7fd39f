"""G-RA on hand-made episodes: which rates they count in, what the gated reward pays, and what a trainer learns from."""

import pytest

from agentbench.core.records import Planned
from agentbench.core.registry import resolve
from agentbench.core.rewards import weigh
from agentbench.core.rows import row_of
from agentbench.core.types import Reply, Trajectory, Turn
from agentbench.metrics.collect import summarise
from agentbench.train.batch import make_batch

OPEN = {"resolved": 0.0, "fraction": 0.0, "submitted": 0.0, "modified": 0.0}
RIGHT = OPEN | {"format": 1.0}
WRONG = OPEN | {"format": 0.0}
EMPTY = RIGHT | {"submitted": 1.0}
FAILED = EMPTY | {"modified": 1.0}
SOLVED = FAILED | {"resolved": 1.0, "fraction": 1.0}


def episode(*terms: dict[str, float]) -> Trajectory:
    turns = [Turn("", Reply("x", (1,), (2,), (-0.5,)), "", 0.0, raw, 0.0, True, {}, 0.0, 0.0, "") for raw in terms]
    return Trajectory("swe", "test", "task", 0, turns=turns, success=terms[-1] is SOLVED, end="terminated")


def rates(*played: Trajectory, planned: int) -> tuple[float | None, ...]:
    plan = [Planned(str(number), str(number), number, 0) for number in range(planned)]
    rows = [{"key": one.key, **row_of(each)} for one, each in zip(plan, played, strict=False)]
    summary = summarise(plan, rows)
    return summary["completion_rate"], summary["modification_rate"], summary["resolution_rate"]


def test_every_rate_is_a_share_of_the_planned_episodes() -> None:
    played = [episode(RIGHT), episode(EMPTY), episode(RIGHT, FAILED), episode(WRONG, SOLVED)]
    assert rates(*played, planned=4) == (0.75, 0.5, 0.25)
    assert rates(*played, planned=5) == (0.6, 0.4, 0.2), "one that was not played came nowhere"
    assert rates(episode(RIGHT), planned=1) == (0, 0, 0)


def test_an_environment_without_such_terms_has_no_such_rates() -> None:
    assert rates(episode({"won": 1.0}), planned=1) == (None, None, None)
    assert rates(planned=1) == (None, None, None)


@pytest.mark.parametrize(
    ("terms", "paid"),
    [
        ([RIGHT, RIGHT], [0.0, 0.0]),
        ([RIGHT, EMPTY], [0.0, 0.1]),
        ([RIGHT, WRONG, FAILED], [0.01, 0.0, 0.21]),
        ([RIGHT, SOLVED], [0.01, 1.21]),
    ],
)
def test_steps_are_paid_only_where_a_change_was_handed_in(terms: list[dict[str, float]], paid: list[float]) -> None:
    played, spec = episode(*terms), resolve("swe/g-ra").reward
    assert weigh(played, spec, 1.0) == pytest.approx(paid)
    batch = make_batch([played], [weigh(played, spec, 1.0)], [played.task])
    assert batch.rewards_ek[0].tolist() == pytest.approx(paid)
