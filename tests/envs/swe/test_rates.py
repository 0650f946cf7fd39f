"""G-RA on hand-made episodes: which rates they count in, and what the gated reward pays."""

import pytest
from agentbench_envs.swe.rates import rates

from agentbench.core.registry import resolve
from agentbench.core.rewards import weigh
from agentbench.core.types import Reply, Trajectory, Turn

RIGHT = {"format": 1.0}
WRONG = {"format": 0.0}
EMPTY = {"format": 1.0, "submitted": 1.0, "modified": 0.0, "resolved": 0.0, "fraction": 0.0}
FAILED = EMPTY | {"modified": 1.0}
SOLVED = FAILED | {"resolved": 1.0, "fraction": 1.0}


def episode(*terms: dict[str, float]) -> Trajectory:
    turns = [Turn("", Reply(""), "", 0.0, raw, 0.0, True, {}, 0.0, 0.0, "") for raw in terms]
    return Trajectory("swe", "test", "task", 0, turns=turns, end="terminated")


def test_every_rate_is_a_share_of_all_episodes() -> None:
    played = [episode(RIGHT), episode(EMPTY), episode(RIGHT, FAILED), episode(WRONG, SOLVED)]
    assert rates(played) == (0.75, 0.5, 0.25)
    with pytest.raises(ValueError, match="no episode"):
        rates([])


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
    assert weigh(episode(*terms), resolve("swe/g-ra").reward, 1.0) == pytest.approx(paid)
