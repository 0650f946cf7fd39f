"""Sizes: published values, inverse functions, and the split of variance."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.seeding import generator
from agentbench.metrics.sizes import Sides
from agentbench.metrics.stats import (
    components,
    detectable,
    fewest_tasks,
    non_inferior,
    paired,
    power_of,
    tasks_needed,
    tasks_to_trust,
    unseen,
)

SIDES: tuple[Sides, ...] = (1, 2)


@pytest.mark.parametrize(
    ("tasks", "trials", "points"), [(50, 1, 17.6), (100, 1, 12.4), (100, 4, 6.2), (200, 4, 4.4), (500, 1, 5.6)]
)
def test_the_published_detectable_effects(tasks: int, trials: int, points: float) -> None:
    # Tasks ~ Beta(1/2, 1/2): the variance of one trial of a known task is 1/8, and two policies play.
    deviation = math.sqrt(2 * 0.125 / trials)
    assert 100 * detectable(deviation, tasks, sides=1) == pytest.approx(points, rel=0.02)


@given(st.floats(0.01, 2), st.floats(0.01, 1), st.sampled_from([0.5, 0.8, 0.95]), st.sampled_from(SIDES))
def test_the_size_is_the_smallest_that_sees_it(deviation: float, effect: float, power: float, sides: Sides) -> None:
    n = tasks_needed(deviation, effect, power=power, sides=sides)
    least = math.ceil(math.log2(sides / 0.05))
    assert n >= least
    assert detectable(deviation, n, power=power, sides=sides) <= effect
    assert n == least or detectable(deviation, n - 1, power=power, sides=sides) > effect
    assert power_of(deviation, effect, n, sides=sides) >= power - 1e-9


def test_a_detectable_effect_is_detected_with_its_power() -> None:
    for n in (10, 100):
        assert power_of(0.4, detectable(0.4, n), n) == pytest.approx(0.8)


def test_power_is_close_to_the_noncentral_t() -> None:
    for n, effect in [(20, 0.2), (60, 0.1), (200, 0.1)]:
        shift = effect * math.sqrt(n) / 0.5
        exact = scipy.stats.nct.sf(scipy.stats.t.ppf(0.975, n - 1), n - 1, shift)
        assert power_of(0.5, effect, n) == pytest.approx(exact, abs=0.02)


def test_the_effect_of_a_comparison_is_that_of_its_differences() -> None:
    rng = generator("mde")
    a, b = rng.random(40), rng.random(40)
    assert paired(a, b).mde == pytest.approx(detectable(float(np.std(b - a, ddof=1)), 40))
    assert paired(a, b, confidence=0.99).mde > paired(a, b).mde


def test_the_edges() -> None:
    assert detectable(0.5, 5) == math.inf, "five unanimous tasks have a p-value of .0625"
    assert detectable(0.5, 5, sides=1) < math.inf
    assert power_of(0.5, 0.1, 5) == 0.0
    assert power_of(0.0, 0.1, 10) == 1.0
    assert tasks_needed(0.0, 0.1) == 6, "the first size at which a sign-flip p-value can be .05"
    for wrong in (0.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="positive"):
            tasks_needed(0.5, wrong)
    for power in (0.0, 1.0):
        with pytest.raises(ValueError, match="strictly between"):
            detectable(0.5, 10, power=power)


def test_the_size_for_a_tiny_effect_is_found_at_once() -> None:
    assert tasks_needed(0.5, 1e-6, step=1.0) == pytest.approx((0.5 * (1.959964 + 0.841621) / 1e-6) ** 2, rel=1e-4)


def test_too_few_tasks_miss_what_was_lost() -> None:
    for n in (1, 59, 1000):
        assert (1 - unseen(n)) ** n == pytest.approx(0.05)


@pytest.mark.parametrize("level", [0.05, 0.01, 0.001])
def test_fewer_tasks_than_these_cannot_have_a_p_value_as_small_as_the_level(level: float) -> None:
    n = fewest_tasks(level=level)
    assert paired([0] * n, [1] * n).p_value <= level < paired([0] * (n - 1), [1] * (n - 1)).p_value
    with pytest.raises(ValueError, match="strictly between"):
        fewest_tasks(level=0.0)


def test_an_equal_policy_is_trusted_from_the_size_on_that_both_bounds_ask_for() -> None:
    assert tasks_to_trust(0.0, 0.05) == 59, "where nothing varies, a lost share of 5 % is met by one of 59"
    assert tasks_to_trust(0.5, 0.05) > tasks_needed(0.5, 0.05, sides=1), "the cautious bound asks for more than t"
    assert tasks_to_trust(0.5, 0.05, power=0.9) > tasks_to_trust(0.5, 0.05) > tasks_to_trust(0.5, 0.05, level=0.1)
    assert tasks_to_trust(0.5, 2.0) >= 2, "a margin that no success rate can lose takes hardly a task"
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="positive"):
            tasks_to_trust(0.5, wrong)


@pytest.mark.parametrize(("rate", "trials"), [(0.5, 4), (0.5, 16), (0.9, 4), (0.9, 16), (0.98, 1)])
def test_a_size_that_promises_trust_keeps_its_promise(rate: float, trials: int, scale: float) -> None:
    # Rates of tasks are Beta(m, 1 - m), so a single trial of a known task has the variance m (1 - m) / 2.
    repeats = max(200, round(200 * scale))
    n = tasks_to_trust(math.sqrt(rate * (1 - rate) / trials), 0.05)
    rng, trusted = generator("trust", rate, trials), 0
    for _ in range(repeats):
        rates = rng.beta(rate, 1 - rate, n)
        a, b = (rng.binomial(trials, rates) / trials for _ in range(2))
        trusted += non_inferior(a, b, margin=0.05).trusted > -0.05
    assert 0.7 < trusted / repeats < 0.92


def test_steps_cost_the_power_that_the_exact_test_loses() -> None:
    # Single trials of 100 tasks, each of which keeps 80 % of its rate: 10 points are lost.
    rng, found, n = generator("steps"), 0, 100
    for _ in range(600):
        rates = rng.beta(0.5, 0.5, n)
        a, b = rng.binomial(1, rates), rng.binomial(1, 0.8 * rates)
        found += paired(a, b).p_value <= 0.05
    second = 0.25 + 0.125
    deviation = math.sqrt(0.04 * 0.125 + 0.5 - second + 0.8 * 0.5 - 0.64 * second)
    assert power_of(deviation, 0.1, n, step=1.0) == pytest.approx(found / 600, abs=0.06)
    assert power_of(deviation, 0.1, n) > found / 600, "without it the prediction would be too high"
    assert detectable(deviation, n, step=1.0) == pytest.approx(detectable(deviation, n) + 0.01)


def test_variance_is_split_as_it_was_made() -> None:
    rng = generator("components")
    rates = rng.beta(1.0, 1.0, 4000)
    for trials in (2, 5):
        split = components([rng.binomial(1, rate, trials) for rate in rates])
        assert split.between == pytest.approx(1 / 12, abs=0.006)
        assert split.within == pytest.approx(1 / 6, abs=0.006)
        assert (split.tasks, split.trials) == (4000, trials)


def test_uneven_numbers_of_trials_are_split_too() -> None:
    rng = generator("uneven components")
    outcomes = [
        rng.binomial(1, rate, trials) for rate, trials in zip(rng.beta(1, 1, 6000), [1, 2, 6] * 2000, strict=True)
    ]
    split = components(outcomes)
    assert (split.between, split.within) == pytest.approx((1 / 12, 1 / 6), abs=0.01)
    assert split.trials == pytest.approx(3 / (1 + 1 / 2 + 1 / 6))


def test_a_split_that_cannot_be_made_is_not_made_up() -> None:
    single = components([[1], [0], [1], [1]])
    assert single.within is None
    assert single.between == pytest.approx(0.25)
    assert components([[1, 0], [0, 1]]).between == 0.0, "never below zero"
    assert components([[1, 1]]) == (0.0, 0.0, 1.0, 1, 2.0)
    nothing: list[list[list[float]]] = [[], [[]], [[1], [math.nan]]]
    for wrong in nothing:
        with pytest.raises(ValueError):
            components(wrong)
