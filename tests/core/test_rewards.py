"""Stored terms weighed again; every number here is worked by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import UsageError
from agentbench.core.rewards import Gate, RewardSpec, RewardTerm, shaping, weigh
from agentbench.core.types import Reply, Trajectory, Turn


def episode(
    *terms: dict[str, float],
    potentials: tuple[float, ...] = (),
    final_potential: float = 0.0,
    last_value: float | None = None,
    success: bool | None = None,
) -> Trajectory:
    turns = [
        Turn("", Reply(""), "", 0.0, raw, potentials[k] if potentials else 0.0, True, {}, 0.0, 0.0, "")
        for k, raw in enumerate(terms)
    ]
    ended: dict[str, Any] = {"final_potential": final_potential, "last_value": last_value, "success": success}
    return Trajectory("env", "test", "task", 0, turns=turns, end="terminated", **ended)


STEPS = episode({"step": 1.0}, {"step": 1.0, "box": 1.0}, {"step": 2.0, "box": -1.0, "won": 1.0})


def test_dense_terms_are_paid_at_the_turn_where_they_were_earned() -> None:
    spec = RewardSpec((RewardTerm("step", -0.1), RewardTerm("box", 1.0), RewardTerm("won", 10.0)))
    assert weigh(STEPS, spec, 0.9) == pytest.approx([-0.1, 0.9, -0.2 - 1.0 + 10.0])


def test_a_final_term_counts_only_what_the_last_turn_reports() -> None:
    spec = RewardSpec((RewardTerm("box", 2.0, when="final"), RewardTerm("won", 1.0, when="final")))
    assert weigh(STEPS, spec, 1.0) == [0.0, 0.0, -2.0 + 1.0]


def test_a_term_that_was_never_reported_pays_nothing() -> None:
    assert weigh(STEPS, RewardSpec((RewardTerm("nonsense", 5.0),)), 1.0) == [0.0, 0.0, 0.0]
    assert weigh(STEPS, RewardSpec(), 1.0) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("gate", "rewards"),
    [
        (Gate("won", 1.0), [-0.1, -0.1, -0.2 + 10.0]),
        (Gate("won", 1.0, strict=True), [0.0, 0.0, 10.0]),
        (Gate("won", 0.0, strict=True), [-0.1, -0.1, -0.2 + 10.0]),
        (Gate("won", 2.0), [0.0, 0.0, 10.0]),
    ],
)
def test_a_closed_gate_withholds_the_other_terms_and_pays_its_own(gate: Gate, rewards: list[float]) -> None:
    spec = RewardSpec((RewardTerm("step", -0.1), RewardTerm("won", 10.0)), (gate,))
    assert weigh(STEPS, spec, 1.0) == pytest.approx(rewards)


def test_a_gate_looks_at_the_sum_over_the_episode() -> None:
    spec = RewardSpec((RewardTerm("step", 1.0),), (Gate("box", 0.0),))
    assert weigh(STEPS, spec, 1.0) == [1.0, 1.0, 2.0], "boxes sum to 0, which reaches 0"
    spec = RewardSpec((RewardTerm("step", 1.0),), (Gate("box", 0.0, strict=True),))
    assert weigh(STEPS, spec, 1.0) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("success", "rewards"), [(True, [-0.1, 0.9]), (False, [0.0, 0.0]), (None, [0.0, 0.0])])
def test_success_is_a_gate_without_a_term_of_the_environment(success: bool | None, rewards: list[float]) -> None:
    played = episode({"step": 1.0}, {"step": 1.0}, success=success)
    terms = (RewardTerm("step", -0.1), RewardTerm("success"))
    assert weigh(played, RewardSpec(terms, (Gate("success", 1.0),)), 1.0) == pytest.approx(rewards)


def test_the_potential_is_no_gate() -> None:
    with pytest.raises(UsageError, match="gate on a term, or on success"):
        Gate("potential", 0.0)


def test_every_gate_must_open() -> None:
    terms = (RewardTerm("step", 1.0), RewardTerm("box", 3.0), RewardTerm("won", 10.0))
    both = RewardSpec(terms, (Gate("won", 1.0), Gate("box", 0.0)))
    assert weigh(STEPS, both, 1.0) == [1.0, 1.0 + 3.0, 2.0 - 3.0 + 10.0]
    one_shut = RewardSpec(terms, (Gate("won", 1.0), Gate("box", 1.0)))
    assert weigh(STEPS, one_shut, 1.0) == [0.0, 3.0, -3.0 + 10.0]


def test_shaping_is_the_discounted_difference_of_potentials() -> None:
    assert shaping([1.0, 2.0, 4.0], 8.0, 0.5) == [0.0, 0.0, 0.0]
    assert shaping([1.0, 3.0], 0.0, 0.9) == pytest.approx([1.7, -3.0])
    assert shaping([], 0.0, 0.9) == []


def test_the_potential_term_ends_at_zero_unless_a_value_follows() -> None:
    spec = RewardSpec((RewardTerm("potential", 2.0),))
    ended = episode({}, {}, potentials=(1.0, 3.0), final_potential=5.0)
    assert weigh(ended, spec, 0.9) == pytest.approx([2 * 1.7, 2 * -3.0])
    bootstrapped = episode({}, {}, potentials=(1.0, 3.0), final_potential=5.0, last_value=0.25)
    assert weigh(bootstrapped, spec, 0.9) == pytest.approx([2 * 1.7, 2 * (0.9 * 5.0 - 3.0)])


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20), st.floats(0.0, 1.0))
def test_discounted_shaping_telescopes_to_minus_the_first_potential(potentials: list[float], gamma: float) -> None:
    shaped = weigh(
        episode(*[{}] * len(potentials), potentials=tuple(potentials), final_potential=7.0),
        RewardSpec((RewardTerm("potential"),)),
        gamma,
    )
    total = sum(gamma**k * reward for k, reward in enumerate(shaped))
    assert total == pytest.approx(-potentials[0], abs=1e-9)


def test_an_episode_without_turns_earns_nothing() -> None:
    spec = RewardSpec((RewardTerm("won", when="final"), RewardTerm("potential")), (Gate("won", 0.0),))
    assert weigh(episode(), spec, 1.0) == []


def test_weighing_changes_nothing_that_is_stored() -> None:
    before = [dict(turn.terms) for turn in STEPS.turns]
    weigh(STEPS, RewardSpec((RewardTerm("box", when="final"),), (Gate("won", 9.0),)), 0.5)
    assert [turn.terms for turn in STEPS.turns] == before
