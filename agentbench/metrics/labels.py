"""Two sets of training runs: is one algorithm better, when each run differs from the others in its seed?

The runs of two algorithms share no tasks' luck to subtract, so nothing is paired. If the algorithms were alike, any
division of all runs into sets of these sizes would have been as likely: the permutation test counts the divisions whose
means are at least as far apart (Fisher 1935). The interval is Welch's, whose variances may differ (Welch 1947).
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from agentbench.core.seeding import generator
from agentbench.metrics.intervals import Array, Values, measured, t_quantile

EXACT_DIVISIONS = 1 << 17
"""Divisions up to this many are enumerated: two sets of nine."""


class Unpaired(NamedTuple):
    """What the means of two sets of runs say of b - a; the p-value decides, as in `Paired`."""

    delta: float
    low: float
    high: float
    p_value: float
    mde: float
    """The smallest true difference that so many runs would show with 80 % power."""
    n: int
    """Runs of the smaller set."""


def unpaired(a: Values, b: Values, *, confidence: float = 0.95, seed: int = 0) -> Unpaired:
    """Compare two sets of independent numbers, one per training run.

    Args:
        a: The first algorithm's score in each run.
        b: The second one's; their number may differ.
        confidence: Nominal coverage of the interval; 1 - confidence is the level at which `mde` is detected.
        seed: Of the permutation test where it cannot be exact.

    Raises:
        ValueError: A set is empty, or a value is not a finite number.
    """
    before, after = measured(a), measured(b)
    delta, n = float(after.mean() - before.mean()), min(len(before), len(after))
    p_value = divisions(before, after, seed=seed)
    if n < 2:
        return Unpaired(delta, -math.inf, math.inf, p_value, math.inf, n)
    parts = [float(side.var(ddof=1)) / len(side) for side in (before, after)]
    error = math.sqrt(sum(parts))
    if error == 0.0:
        return Unpaired(delta, delta, delta, p_value, 0.0, n)
    freedom = error**4 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True))
    half = t_quantile(0.5 + confidence / 2, freedom) * error
    mde = half + t_quantile(0.8, freedom) * error
    return Unpaired(delta, delta - half, delta + half, p_value, mde, n)


def divisions(a: Values, b: Values, *, draws: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p-value of the permutation test of the difference of means.

    Args:
        a: One set.
        b: The other.
        draws: Divisions that are drawn where they are too many to enumerate; then p = (1 + hits) / (1 + draws).
        seed: Of these.

    Raises:
        ValueError: A set is empty, or a value is not a finite number.
    """
    before, after = measured(a), measured(b)
    pooled = np.concatenate([before, after])
    size, total = len(before), float(pooled.sum())
    exact = math.comb(len(pooled), size) <= EXACT_DIVISIONS
    sums = _all_sums(pooled, size) if exact else _some_sums(pooled, size, draws, seed)
    distances = np.abs((total - sums) / len(after) - sums / size)
    observed = abs(float(after.mean() - before.mean()))
    hits = int((distances >= observed - 1e-12 * max(1.0, abs(total))).sum())
    return hits / len(sums) if exact else (1 + hits) / (1 + draws)


def _all_sums(pooled: Array, size: int) -> Array:
    return np.array([math.fsum(chosen) for chosen in itertools.combinations(pooled.tolist(), size)])


def _some_sums(pooled: Array, size: int, draws: int, seed: int) -> Array:
    rng = generator("divisions", seed)
    return np.array([pooled[rng.permutation(len(pooled))[:size]].sum() for _ in range(draws)])
