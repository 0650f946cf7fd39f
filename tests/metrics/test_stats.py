"""Intervals: known values, an independent implementation, and coverage."""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.seeding import generator
from agentbench.metrics.stats import (
    Estimate,
    clustered_error,
    mean_interval,
    over_tasks,
    pass_at_k,
    pass_hat_k,
    success_interval,
    wilson,
)


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
    assert mean_interval([0.5]) == Estimate(0.5, -math.inf, math.inf, 1)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.25, 0.25, 0.25]) == Estimate(0.25, 0.25, 0.25, 3)


def test_what_cannot_be_an_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        mean_interval([])
    for successes, n in [(0, 0), (3, 2), (-1, 2)]:
        with pytest.raises(ValueError, match="a proportion needs"):
            wilson(successes, n)
    for confidence in (-0.5, 0.0, 1.0, 7.0, math.nan):
        with pytest.raises(ValueError, match="confidence lies strictly between 0 and 1"):
            mean_interval([0.5], confidence=confidence)
        with pytest.raises(ValueError, match="confidence lies strictly between 0 and 1"):
            wilson(1, 2, confidence=confidence)


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
    assert success_interval([0.5], trials=2) == Estimate(0.5, 0.0, 1.0, 1)


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


def test_wilson_refuses_what_is_no_count() -> None:
    for successes, n in [(math.nan, 10), (1, math.nan)]:
        with pytest.raises(ValueError, match="a proportion needs"):
            wilson(successes, n)


def test_values_that_are_no_numbers_are_named() -> None:
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match="value 1 of 3"):
            mean_interval([0.0, wrong, 1.0])
        with pytest.raises(ValueError, match="value 1 of 3"):
            success_interval([0.0, wrong, 1.0], trials=1)


def test_a_confidence_is_a_chance() -> None:
    for wrong in (-1.0, 1.0, 95.0):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            mean_interval([0.0, 1.0], confidence=wrong)


def test_the_clustered_error_is_that_of_task_means_where_trials_are_even() -> None:
    # The published rows 111, 101, 001, 000: clustered .215166, as independent episodes .150756.
    outcomes = [1, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0]
    tasks = [task for task in "abcd" for _ in range(3)]
    assert clustered_error(outcomes, tasks) == pytest.approx(0.215166, abs=1e-6)
    assert clustered_error(outcomes, range(12)) == pytest.approx(0.150756, abs=1e-6)
    shuffled = generator("order").permutation(12)
    again = clustered_error([outcomes[i] for i in shuffled], [tasks[i] for i in shuffled])
    assert again == pytest.approx(0.215166, abs=1e-6)


def test_uneven_clusters_follow_the_formula() -> None:
    # Tasks a: 1, 0, 1; b: 0. Mean .5; sums of deviations a .5, b -.5; sqrt(2 / 1 * (.25 + .25)) / 4.
    assert clustered_error([1, 0, 1, 0], ["a", "a", "a", "b"]) == pytest.approx(0.25)
    assert clustered_error([1, 0], ["a", "a"]) == math.inf
    with pytest.raises(ValueError, match="2 values and 1 tasks"):
        clustered_error([1, 0], ["a"])


def test_pass_at_k_and_pass_hat_k_have_the_published_values() -> None:
    assert [pass_at_k(5, 2, k) for k in (1, 2, 3, 5)] == pytest.approx([0.4, 0.7, 0.9, 1.0])
    assert [pass_at_k(10, 3, k) for k in (1, 2, 5, 10)] == pytest.approx([0.3, 0.533333, 0.916667, 1.0], abs=1e-6)
    assert [pass_hat_k(5, 2, k) for k in (1, 2, 3)] == pytest.approx([0.4, 0.1, 0.0])
    assert [pass_hat_k(10, 9, k) for k in (1, 2, 4, 8)] == pytest.approx([0.9, 0.8, 0.6, 0.2])


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_they_are_the_share_of_all_choices_of_k_attempts(attempts: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(attempts)))
    choices = list(combinations(attempts, k))
    n, c = len(attempts), sum(attempts)
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_attempts_that_cannot_be_are_refused() -> None:
    for n, c, k in [(2, 1, 3), (2, 3, 1), (2, -1, 1), (2, 1, 0)]:
        for chance in (pass_at_k, pass_hat_k):
            with pytest.raises(ValueError, match=f"got n={n}, c={c}, k={k}"):
                chance(n, c, k)


def test_tasks_without_enough_attempts_are_left_out_and_counted() -> None:
    counts = [(5, 2), (5, 5), (2, 2), (5, 0)]
    estimate = over_tasks(pass_at_k, counts, 3)
    assert estimate is not None
    assert estimate.n == 3
    assert estimate.mean == pytest.approx((0.9 + 1 + 0) / 3)
    assert over_tasks(pass_hat_k, counts, 6) is None
    assert over_tasks(pass_at_k, [(4, 1), (4, 0)], 4) == wilson(1, 2), "one yes or no per task"
    ends = over_tasks(pass_hat_k, [(4, 4)] * 10, 2)
    assert ends == wilson(10, 10)
