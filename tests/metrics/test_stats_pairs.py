"""Paired comparison: known values, brute force, and how often the tests cry wolf."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.core.seeding import generator
from agentbench.metrics import pairs
from agentbench.metrics.stats import (
    detectable,
    holm,
    mcnemar,
    mean_interval,
    non_inferior,
    paired,
    pass_at_k,
    pass_hat_k,
    probability_of_improvement,
    sign_flip,
    unseen,
    wilson,
)

BEFORE = [1, 1, 0.67, 0.33, 1, 0, 0.67, 1]
AFTER = [1, 0.67, 0.33, 0.33, 0.67, 0, 0.67, 0.33]
"""Published beside: delta -.20875, standard error .088002, t p-value .049454, exact one-sided sign-flip .0625."""


def by_hand(differences: list[float], alternative: str = "two-sided") -> float:
    """The sign-flip p-value by trying every sign of every difference."""
    sums = np.array([np.dot(signs, differences) for signs in product([1, -1], repeat=len(differences))])
    observed, near = sum(differences), 1e-9
    if alternative == "two-sided":
        return float(np.mean(np.abs(sums) >= abs(observed) - near))
    return float(np.mean(sums >= observed - near if alternative == "greater" else sums <= observed + near))


def test_the_published_comparison() -> None:
    result = paired(BEFORE, AFTER)
    assert result.delta == pytest.approx(-0.20875)
    half = 0.088002 * scipy.stats.t.ppf(0.975, 7)
    assert (result.low, result.high) == pytest.approx((-0.20875 - half, -0.20875 + half), abs=1e-5)
    assert result.p_value == 0.125, "twice the one-sided .0625"
    assert sign_flip(np.subtract(AFTER, BEFORE), alternative="less") == 0.0625
    assert result.flips == (2, 7)
    delta, low, high, p_value, mde, flips = result
    assert low < delta < high and p_value > 0 and mde > 0 and flips == result.flips


def test_the_test_decides_where_the_interval_disagrees() -> None:
    result = paired(BEFORE, AFTER)
    assert result.high < 0 < 0.05 < result.p_value


def test_single_trials_agree_with_mcnemar() -> None:
    a = [1] * 10 + [0] * 2 + [1] * 30 + [0] * 8
    b = [0] * 10 + [1] * 2 + [1] * 30 + [0] * 8
    result = paired(a, b)
    assert result.p_value == pytest.approx(mcnemar(10, 2)) == pytest.approx(0.038574, abs=1e-6)
    assert result.flips == tuple(range(12))


@given(st.lists(st.sampled_from([-1, -2 / 3, -0.5, -1 / 3, 0, 1 / 3, 1 - 2 / 3, 0.5, 1]), min_size=1, max_size=10))
def test_the_exact_test_is_the_enumeration(differences: list[float]) -> None:
    for alternative in ("two-sided", "greater", "less"):
        assert sign_flip(differences, alternative=alternative) == pytest.approx(by_hand(differences, alternative))


def test_thousands_of_flips_are_counted_in_no_time() -> None:
    assert sign_flip([1.0] * 2600 + [-1.0] * 2400) == pytest.approx(mcnemar(2600, 2400))


@given(st.integers(0, 60))
def test_binomials_are_pascals(n: int) -> None:
    assert list(pairs.binomials(n)) == [math.comb(n, k) for k in range(n + 1)]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=9))
def test_so_it_is_for_differences_of_any_size(differences: list[float]) -> None:
    # Differences a billion times smaller than the largest change no order of sums that a record could show.
    rounded = [round(difference, 6) for difference in differences]
    assert sign_flip(rounded) == pytest.approx(by_hand(rounded))


@pytest.mark.parametrize(("tasks", "trials"), [(300, 1), (300, 4), (100, 8)])
def test_hundreds_of_success_rates_are_still_exact(tasks: int, trials: int) -> None:
    rng = generator("exact", tasks, trials)
    differences = (rng.binomial(trials, 0.52, tasks) - rng.binomial(trials, 0.48, tasks)) / trials
    exact = sign_flip(differences)
    assert exact == sign_flip(differences, seed=1), "nothing was drawn"
    signs = np.where(rng.random((20_000, tasks)) < 0.5, 1, -1)
    drawn = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    assert exact == pytest.approx(drawn, abs=5 * math.sqrt(0.25 / 20_000))


def test_differences_too_many_to_enumerate_are_drawn_with_a_seed() -> None:
    differences = generator("drawn").normal(0.1, 1.0, 60)
    first = sign_flip(differences)
    assert first == sign_flip(differences)
    assert first != sign_flip(differences, seed=1)
    expected = scipy.stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(0)
    )
    assert first == pytest.approx(expected.pvalue, abs=0.02)


def test_a_drawn_p_value_is_never_zero() -> None:
    differences = generator("far from zero").normal(10.0, 1.0, 60)
    assert sign_flip(differences, draws=999) == pytest.approx(1 / 1000)
    assert sign_flip(differences, draws=999, alternative="less") == 1.0


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.integers(0, 3))
@settings(max_examples=50)
def test_a_p_value_does_not_depend_on_names_or_units(differences: list[float], seed: int) -> None:
    rounded = [round(difference, 3) for difference in differences]
    p = sign_flip(rounded, seed=seed)
    assert 0 < p <= 1
    assert sign_flip([-d for d in rounded], seed=seed) == pytest.approx(p, abs=0.03)
    assert sign_flip([1000 * d for d in rounded], seed=seed) == pytest.approx(p)
    assert sign_flip([*rounded, 0.0, 0.0], seed=seed) == pytest.approx(p, abs=0.03)


def test_one_task_and_equal_runs_show_nothing() -> None:
    one = paired([1.0], [0.0])
    assert (one.delta, one.low, one.high, one.p_value, one.mde) == (-1.0, -math.inf, math.inf, 1.0, math.inf)
    same = paired([1, 0.5, 0], [1, 0.5, 0])
    assert (same.delta, same.low, same.high, same.p_value, same.flips) == (0, 0, 0, 1.0, ())


@pytest.mark.parametrize("a", [[1] * 5, [1, 1, 1, 1, 0.9], [0, 0.5, 1]])
def test_too_few_tasks_detect_nothing(a: list[float]) -> None:
    # Five tasks that agree have a p-value of .0625: no difference is ever found at .05.
    assert paired(a, [1] * len(a)).mde == math.inf
    assert paired([*a] * 2, [1] * 2 * len(a)).mde < math.inf
    assert paired([*a] * 2, [1] * 2 * len(a), level=0.001).mde == math.inf


def test_where_nothing_varied_not_everything_is_detectable() -> None:
    for after in ([1] * 30, [0] * 30):
        expected = detectable(float(np.std([0] * 30 + [1, -1], ddof=1)), 30)
        assert paired([1] * 30, after).mde == pytest.approx(expected)
        assert expected > 0.1
    rewards = paired([500.0] * 30, [500.0] * 30)
    assert rewards.mde == pytest.approx(500 * paired([1] * 30, [1] * 30).mde), "in the unit of what is compared"


def test_what_only_rounding_tells_apart_is_equal() -> None:
    for a, b in ((0.3, 0.1 + 0.2), (0.0, 0.1 + 0.2 - 0.3), (1e6 / 3, 1e6 / 3 + 1e-9), (-0.3, -0.1 - 0.2)):
        found = paired([a] * 20, [b] * 20)
        assert (found.delta, found.p_value) == (0.0, 1.0), (a, b)
        assert probability_of_improvement([b] * 20, [a] * 20) == 0.5
    assert paired([0.3] * 20, [0.3001] * 20).p_value < 0.001


def test_equal_differences_are_judged_by_their_number() -> None:
    assert paired([0] * 5, [1] * 5).p_value == 2 / 2**5
    assert paired([0] * 6, [1] * 6).p_value == 2 / 2**6


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1, 0], [1], "same tasks twice, got 2 and 1"),
        ([], [], "at least one value"),
        ([0.5, math.nan], [0.5, 0.5], "value 1 of 2 is nan"),
        ([0.5, 0.5], [math.inf, 0.5], "value 0 of 2 is inf"),
        ([[0.5]], [[0.5]], "flat list"),
    ],
)
def test_what_cannot_be_compared_is_refused(a: list[float], b: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        paired(a, b)


def test_values_may_come_one_by_one() -> None:
    listed = ([1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 0])
    assert paired(*map(iter, listed)) == paired(*listed)
    assert mean_interval(value for value in listed[0]) == mean_interval(listed[0])
    assert holm(iter([0.01, 0.04])) == [0.02, 0.04]


@pytest.mark.parametrize("integer", [np.int8, np.uint8, np.int64])
def test_counts_may_be_numpy_integers(integer: type[Any]) -> None:
    for function, counts in (
        (mcnemar, (50, 14)), (mcnemar, (64, 0)), (wilson, (45, 100)), (pass_at_k, (60, 20, 3)),
        (pass_hat_k, (60, 20, 3)), (unseen, (59,)),
    ):  # fmt: skip
        found = function(*map(integer, counts))
        assert found == function(*counts)
        assert all(type(number) in (int, float) for number in np.atleast_1d(np.array(found, dtype=object)))
    a, b = [1] * 50 + [0] * 14, [0] * 50 + [1] * 14
    assert paired(np.array(a, dtype=integer), np.array(b, dtype=integer)) == paired(a, b)
    assert sign_flip(np.array([1, 1, 1, 1, 1, 1], dtype=integer)) == 2 / 2**6
    assert detectable(0.4, integer(100)) == detectable(0.4, 100)


def test_mcnemar_is_the_exact_binomial_test() -> None:
    for b, c in [(10, 2), (0, 0), (1, 0), (0, 7), (5, 5), (40, 20), (2600, 2400)]:
        expected = scipy.stats.binomtest(b, b + c).pvalue if b + c else 1.0
        assert mcnemar(b, c) == pytest.approx(expected) == mcnemar(c, b)
    with pytest.raises(ValueError, match="counts tasks"):
        mcnemar(-1, 2)


def test_holm_gives_the_published_values() -> None:
    assert holm([0.01, 0.04, 0.03, 0.2]) == pytest.approx([0.04, 0.09, 0.09, 0.2])
    assert holm([]) == []
    assert holm([0.7]) == [0.7]
    for wrong in ([1.1], [-0.1], [math.nan]):
        with pytest.raises(ValueError):
            holm(wrong)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.2))
def test_holm_rejects_what_stepping_down_rejects(p_values: list[float], level: float) -> None:
    rejected, left = set(), sorted(range(len(p_values)), key=lambda i: p_values[i])
    while left and p_values[left[0]] * len(left) <= level:
        rejected.add(left.pop(0))
    adjusted = holm(p_values)
    assert {i for i, p in enumerate(adjusted) if p <= level} == rejected
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))


def test_non_inferiority_is_the_lower_bound_against_the_margin() -> None:
    rng = generator("non-inferior")
    a, b = rng.random(50), rng.random(50)
    result = non_inferior(a, b, margin=0.1)
    assert result.delta == pytest.approx((b - a).mean())
    assert result.bound == pytest.approx(scipy.stats.ttest_1samp(b - a, 0).confidence_interval(0.9).low)
    assert result.ok == (result.bound > -0.1)
    assert non_inferior(a, b, margin=-result.bound + 1e-9).ok
    assert not non_inferior(a, b, margin=-result.bound - 1e-9).ok
    with pytest.raises(ValueError, match="positive"):
        non_inferior(a, b, margin=0.0)


def test_the_cautious_bound_has_seen_a_flip_that_nobody_played() -> None:
    same = non_inferior([1.0] * 20, [1.0] * 20)
    assert same.bound == 0.0
    assert same.cautious == mean_interval([0.0] * 20 + [1.0, -1.0], confidence=0.9).low < -0.05
    many = non_inferior([1.0] * 500, [1.0] * 500)
    assert -0.01 < many.cautious < 0, "it matters less and less"


def test_what_no_task_has_shown_may_be_lost() -> None:
    for n in (58, 59):
        found = non_inferior([1.0] * n, [1.0] * n)
        assert found.trusted == found.unseen == pytest.approx(0.05 ** (1 / n) - 1)
        assert (found.trusted > -0.05) == (n == 59)
    gained = non_inferior([0.0] * 59, [1.0] * 59)
    assert gained.unseen == pytest.approx(1 - 2 * unseen(59)), "of what was gained that share is lost, too"


def test_without_a_difference_one_is_found_as_seldom_as_promised(scale: float) -> None:
    repeats = max(300, round(400 * scale))
    rng = generator("false alarms")
    found = 0
    for _ in range(repeats):
        rates = rng.beta(0.5, 0.5, 60)
        a, b = (rng.binomial(4, rates) / 4 for _ in range(2))
        found += paired(a, b).p_value <= 0.05
    assert found / repeats <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)


def test_a_drop_of_ten_points_is_found(scale: float) -> None:
    # The paired test was measured to see a drop of 5 points in 61 % of cases with 100 tasks of 4 trials.
    repeats = max(100, round(150 * scale))
    rng = generator("power")
    found = dict.fromkeys((0.05, 0.1), 0)
    for _ in range(repeats):
        rates = rng.beta(0.5, 0.5, 100)
        a = rng.binomial(4, rates) / 4
        for drop in found:
            found[drop] += paired(a, rng.binomial(4, rates * (1 - 2 * drop)) / 4).p_value <= 0.05
    assert found[0.05] / repeats > 0.4
    assert found[0.1] / repeats > 0.9


def test_the_limits_of_enumeration_hold_memory_down() -> None:
    # 20 different sizes are enumerated at once; one more, or as many with copies, is drawn.
    sizes = np.sqrt(np.arange(1.0, 22.0))
    assert sign_flip(sizes[:20]) == 2 / 2**20
    assert sign_flip(sizes) == 1 / (pairs.DRAWS + 1)
    assert sign_flip(np.tile(sizes[:20], 40)) == 1 / (pairs.DRAWS + 1)
