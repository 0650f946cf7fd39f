"""Intervals: known values, an independent implementation, and coverage."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.seeding import generator
from agentbench.metrics.stats import Estimate, mean_interval, success_interval, wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(8, 10, 0.490162, 0.943318), (10, 10, 0.722467, 1), (0, 20, 0, 0.161125), (45, 100, 0.356145, 0.547554)],
)
def test_wilson_gives_the_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson(successes, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-6)
    assert (interval.mean, interval.n, interval.method) == (successes / n, n, "wilson")


def test_the_t_interval_of_task_means_is_the_clustered_one() -> None:
    # Four tasks with three trials each: 111, 101, 001, 000; clustered standard error .215166.
    means = [1, 2 / 3, 1 / 3, 0]
    interval = mean_interval(means)
    assert interval.mean == pytest.approx(0.5)
    assert (interval.high - interval.mean) / scipy.stats.t.ppf(0.975, 3) == pytest.approx(0.215166, abs=1e-6)


def test_a_paired_difference_has_the_known_interval() -> None:
    a = [1, 1, 0.67, 0.33, 1, 0, 0.67, 1]
    b = [1, 0.67, 0.33, 0.33, 0.67, 0, 0.67, 0.33]
    interval = mean_interval([y - x for x, y in zip(a, b, strict=True)])
    assert interval.mean == pytest.approx(-0.20875)
    assert interval.high - interval.mean == pytest.approx(0.088002 * scipy.stats.t.ppf(0.975, 7), abs=1e-6)
    assert interval.high < 0 < interval.high + 0.001, "p is .049454: the interval barely misses zero"


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=50).filter(lambda values: np.std(values) > 1e-6),
    st.floats(0.5, 0.999),
)
def test_t_agrees_with_scipy(values: list[float], confidence: float) -> None:
    interval = mean_interval(values, confidence=confidence)
    error = scipy.stats.sem(values)
    low, high = scipy.stats.t.interval(confidence, len(values) - 1, loc=np.mean(values), scale=error)
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_agrees_with_scipy(counts: tuple[int, int], confidence: float) -> None:
    successes, n = counts
    interval = wilson(successes, n, confidence=confidence)
    expected = scipy.stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1


def test_one_value_says_nothing_about_its_spread() -> None:
    assert mean_interval([0.5]) == Estimate(0.5, -math.inf, math.inf, 1, "t")


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.25, 0.25, 0.25]) == Estimate(0.25, 0.25, 0.25, 3, "t")


def test_what_cannot_be_an_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        mean_interval([])
    for successes, n in [(0, 0), (3, 2), (-1, 2)]:
        with pytest.raises(ValueError, match="a proportion needs"):
            wilson(successes, n)


def test_single_trials_get_wilson_and_several_get_t() -> None:
    assert success_interval([1.0, 0.0, 1.0], trials=1) == wilson(2, 3)
    means = [1.0, 0.5, 0.0, 0.5, 0.25, 0.75]
    assert success_interval(means, trials=4) == mean_interval(means)
    assert success_interval([1.0, 0.0, 1.0], trials=2).method == "t", "task means of 0 and 1 from several trials"


@pytest.mark.parametrize("trials", [1, 4])
def test_all_and_nothing_get_wilson_whatever_the_trials(trials: int) -> None:
    assert success_interval([1.0] * 10, trials=trials) == wilson(10, 10)
    assert success_interval([0.0] * 20, trials=trials) == wilson(0, 20)


def test_a_success_rate_stays_between_nothing_and_all() -> None:
    interval = success_interval([1.0, 1.0, 0.75], trials=4)
    assert interval.high == 1.0
    assert success_interval([0.0, 0.0, 0.25], trials=4).low == 0.0
    assert success_interval([0.5], trials=2) == Estimate(0.5, 0.0, 1.0, 1, "t")


@pytest.mark.parametrize("trials", [1, 4])
def test_the_headline_interval_covers_the_truth_as_often_as_it_says(trials: int, scale: float) -> None:
    rng = generator("coverage", trials)
    repeats = max(200, round(1000 * scale))
    covered = 0
    for _ in range(repeats):
        # Tasks differ in difficulty, so that trials of one task are alike; the truth is the mean of Beta(1, 1).
        difficulty = rng.beta(1.0, 1.0, size=50)
        means = (rng.random((trials, 50)) < difficulty).mean(axis=0)
        interval = success_interval(means.tolist(), trials=trials)
        covered += interval.low <= 0.5 <= interval.high
    error = 3 * math.sqrt(0.95 * 0.05 / repeats)
    assert 0.95 - error - 0.005 <= covered / repeats <= 0.95 + error + 0.005


def test_counting_episodes_as_independent_would_cover_too_little() -> None:
    rng = generator("naive coverage")
    covered = 0
    for _ in range(400):
        difficulty = rng.beta(0.5, 0.5, size=50)
        outcomes = rng.random((5, 50)) < difficulty
        interval = wilson(float(outcomes.sum()), outcomes.size)
        covered += interval.low <= 0.5 <= interval.high
    assert covered / 400 < 0.85, "the reason why the task is the unit"
