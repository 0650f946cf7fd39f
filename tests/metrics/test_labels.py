"""Two sets of training runs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from agentbench.core.seeding import generator
from agentbench.metrics.labels import divisions, smallest_p, unpaired

SCORES = st.lists(st.integers(0, 20).map(lambda k: k / 20), min_size=2, max_size=5)


def distance(x: Any, y: Any, axis: int) -> Any:
    return np.round(np.abs(x.mean(axis=axis) - y.mean(axis=axis)), 12)


@given(a=SCORES, b=SCORES)
def test_every_division_is_counted_as_scipy_counts_it(a: list[float], b: list[float]) -> None:
    theirs = stats.permutation_test((np.array(a), np.array(b)), distance, alternative="greater", vectorized=True)
    assert divisions(a, b) == pytest.approx(float(theirs.pvalue))


@given(a=SCORES, b=SCORES)
def test_the_interval_is_welchs(a: list[float], b: list[float]) -> None:
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    found = unpaired(a, b)
    assert found.delta == pytest.approx(np.mean(b) - np.mean(a))
    theirs = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))


def test_sets_without_spread_have_no_interval_to_speak_of() -> None:
    assert unpaired([0.5, 0.5], [0.75, 0.75])[:3] == (0.25, 0.25, 0.25)
    assert unpaired([0.3] * 8, [0.1 + 0.2] * 8).mde == math.inf, "nobody knows how much a ninth run would differ"


def test_what_can_be_detected_depends_on_runs_and_level() -> None:
    a, b = [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]
    assert smallest_p(4, 4) == unpaired(a, b).p_value == 2 / 70
    assert unpaired(a, b).mde < unpaired(a, b, level=0.04).mde < math.inf
    assert unpaired(a, b, level=0.02).mde == math.inf, "no p-value of four runs against four is that small"
    assert unpaired(a[:3], b[:3]).mde == math.inf


def test_the_smallest_p_value_depends_on_the_runs() -> None:
    assert unpaired([0, 0, 0], [1, 1, 1]).p_value == pytest.approx(2 / 20)
    assert unpaired([0] * 8, [1] * 8).p_value == pytest.approx(2 / 12870)


def test_single_runs_prove_nothing() -> None:
    found = unpaired([0.1], [0.9])
    assert (found.p_value, found.low, found.high, found.mde, found.n) == (1.0, -math.inf, math.inf, math.inf, 1)


def test_many_runs_are_drawn_and_agree_with_welch() -> None:
    random = generator("many runs")
    a, b = random.normal(0, 1, 40), random.normal(0.4, 1, 40)
    found = unpaired(a.tolist(), b.tolist())
    assert found.p_value == unpaired(a.tolist(), b.tolist()).p_value
    assert found.p_value == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue, abs=0.02)


def test_nothing_is_no_set() -> None:
    with pytest.raises(ValueError):
        unpaired([], [1.0])
