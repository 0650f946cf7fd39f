"""Bootstrap and training seeds: published values, scipy, seeds, and coverage."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.seeding import generator
from agentbench.metrics.bootstrap import Statistic
from agentbench.metrics.intervals import Array
from agentbench.metrics.stats import (
    bootstrap,
    iqm,
    mean_interval,
    median,
    optimality_gap,
    over_seeds,
    probability_of_improvement,
    ratio,
    simulated_coverage,
    with_coverage,
)

SCORES = np.arange(20).reshape(5, 4) / 20
OURS = [[0.2, 0.8], [0.4, 0.9], [0.6, 0.7]]
THEIRS = [[0.1, 0.85], [0.3, 0.6], [0.5, 0.65]]


def test_the_published_values() -> None:
    assert iqm(SCORES) == pytest.approx(0.475)
    assert optimality_gap(SCORES) == pytest.approx(0.525)
    assert probability_of_improvement(OURS, THEIRS) == pytest.approx(0.722222, abs=1e-6)
    assert probability_of_improvement(THEIRS, OURS) == pytest.approx(1 - 0.722222, abs=1e-6)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30))
def test_iqm_is_scipys_trimmed_mean(values: list[float]) -> None:
    assert iqm(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25), abs=1e-9)
    assert median(values) == np.median(values)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=8),
    st.lists(st.integers(0, 4), min_size=1, max_size=8),
)
def test_improvement_is_the_mann_whitney_share_with_ties_half(ours: list[float], theirs: list[float]) -> None:
    u = scipy.stats.mannwhitneyu(ours, theirs).statistic
    assert probability_of_improvement(ours, theirs) == pytest.approx(u / (len(ours) * len(theirs)))


def test_what_lies_above_the_target_makes_up_for_nothing() -> None:
    assert optimality_gap([0.5, 3.0]) == pytest.approx(0.25)
    assert optimality_gap([0.5, 3.0], target=2.0) == pytest.approx(0.75)


def test_a_ratio_is_a_ratio_of_sums() -> None:
    assert ratio([[100, 1], [300, 0], [50, 1]]) == 225
    assert ratio([[100, 0], [300, 0]]) == math.inf


@pytest.mark.parametrize("statistic", [median, iqm, optimality_gap])
def test_a_batch_of_samples_is_reduced_one_by_one(statistic: Statistic) -> None:
    batch = generator("batch").random((7, 5, 4))
    assert statistic(batch) == pytest.approx([float(statistic(sample)) for sample in batch])


def test_a_batch_of_two_samples_too() -> None:
    rng = generator("batches")
    ours, theirs = rng.random((6, 5, 3)), rng.random((6, 4, 3))
    alone = [float(probability_of_improvement(a, b)) for a, b in zip(ours, theirs, strict=True)]
    assert probability_of_improvement(ours, theirs) == pytest.approx(alone)
    assert ratio(ours) == pytest.approx([float(ratio(sample)) for sample in ours])


def test_the_same_seed_gives_the_same_interval_whatever_was_drawn_before() -> None:
    values = generator("values").random(40)
    first = bootstrap(iqm, values)
    np.random.default_rng().random(5)
    bootstrap(median, values)
    assert bootstrap(iqm, values) == first
    assert bootstrap(iqm, values, seed=1) != first
    assert first.low < first.mean < first.high
    assert (first.n, first.method) == (40, "bootstrap")


def test_the_interval_of_a_mean_is_close_to_the_t_interval() -> None:
    def mean(sample: Array) -> Array:
        return np.asarray(sample.mean(axis=(-2, -1)))

    for n in (8, 60):
        values = generator("normal", n).normal(size=n)
        drawn, exact = bootstrap(mean, values), mean_interval(values)
        assert (drawn.low, drawn.high) == pytest.approx((exact.low, exact.high), abs=0.12 * (exact.high - exact.low))


def test_whole_units_are_drawn() -> None:
    # Both values of a unit stay together: their difference is always 1, so its interval has no width.
    sample = np.column_stack([np.arange(10.0), np.arange(10.0) + 1])
    apart = bootstrap(lambda units: np.asarray((units[..., 1] - units[..., 0]).mean(axis=-1)), sample)
    assert (apart.low, apart.mean, apart.high) == (1, 1, 1)


def test_a_cost_per_success_may_be_unbounded() -> None:
    rare = [[100.0, 1.0]] + [[100.0, 0.0]] * 9
    estimate = bootstrap(ratio, rare)
    assert estimate.mean == 1000
    assert estimate.high == math.inf
    assert math.isfinite(estimate.low)


def test_one_unit_has_no_interval() -> None:
    estimate = bootstrap(median, [0.5])
    assert (estimate.mean, estimate.low, estimate.high, estimate.n) == (0.5, -math.inf, math.inf, 1)
    with pytest.raises(ValueError, match="at least two units"):
        simulated_coverage(median, [0.5])


def test_an_interval_for_readers_has_its_coverage_beside_it() -> None:
    values = generator("readers").random(30)
    found = with_coverage(iqm, values)
    assert found.estimate == bootstrap(iqm, values)
    assert found.coverage == simulated_coverage(iqm, values, worlds=200, draws=200)
    assert found == with_coverage(iqm, values), "seeded"
    assert with_coverage(iqm, [0.5]).coverage is with_coverage(iqm, [0.5] * 8).coverage is None


def test_what_is_no_sample_is_refused() -> None:
    for wrong in ([], [0.5, math.nan], [[0.5, 1.0], [math.inf, 1.0]]):
        with pytest.raises(ValueError):
            bootstrap(median, wrong)
    with pytest.raises(ValueError, match="same tasks, got 2 and 1"):
        probability_of_improvement(OURS, [[0.1], [0.2]])
    with pytest.raises(ValueError):
        over_seeds([])
    for statistic in (median, iqm, optimality_gap, ratio):
        with pytest.raises(ValueError, match="at least one value"):
            statistic([])


def test_equal_values_have_an_interval_of_no_width() -> None:
    estimate = bootstrap(iqm, [0.25] * 12)
    assert (estimate.low, estimate.mean, estimate.high) == (0.25, 0.25, 0.25)


def test_the_promised_coverage_is_what_new_samples_show(scale: float) -> None:
    # The truth is known here: cost per success of a world with costs of mean 100 and a success rate of one half.
    repeats = max(200, round(200 * scale))
    rng = generator("ratio coverage")
    covered, promised = 0, []
    for repetition in range(repeats):
        sample = np.column_stack([rng.gamma(2.0, 50.0, 50), rng.random(50) < 0.5])
        low, high = bootstrap(ratio, sample, draws=400, seed=repetition)[1:3]
        covered += low <= 200 <= high
        if repetition < 4:
            promised.append(simulated_coverage(ratio, sample, worlds=200, draws=200, seed=repetition))
    assert covered / repeats == pytest.approx(0.94, abs=0.02 + 3 * math.sqrt(0.06 * 0.94 / repeats))
    assert np.mean(promised) == pytest.approx(covered / repeats, abs=0.06)


def test_few_training_seeds_are_covered_because_the_percentiles_are_moved_out() -> None:
    rng = generator("five seeds")
    covered = 0
    for _ in range(400):
        low, high = bootstrap(iqm, rng.normal(0.5, 0.1, (5, 10)), draws=400)[1:3]
        covered += low <= 0.5 <= high
    assert covered / 400 > 0.88, "plain percentiles cover 83 %"


def test_over_seeds_is_the_t_interval_of_the_runs_means() -> None:
    assert over_seeds(OURS) == mean_interval(np.mean(OURS, axis=1))
    assert over_seeds([0.2, 0.4, 0.9]) == mean_interval([0.2, 0.4, 0.9])
