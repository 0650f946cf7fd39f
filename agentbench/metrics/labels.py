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
from agentbench.metrics.intervals import SAME, Array, Values, both_sides, measured, t_quantile

EXACT_DIVISIONS = 1 << 17
"""Divisions up to this many are enumerated: two sets of nine."""


class Unpaired(NamedTuple):
    """What the means of two sets of runs say of b - a; the p-value decides, as in `Paired`."""

    delta: float
    low: float
    high: float
    p_value: float
    mde: float
    """The smallest true difference that so many runs would show with 80 % power; infinite where they are too few for
    the test to show any, or where no two runs of a set differ and nobody knows by how much they might."""
    n: int
    """Runs of the smaller set."""


def unpaired(a: Values, b: Values, *, confidence: float = 0.95, level: float | None = None, seed: int = 0) -> Unpaired:
    """Compare two sets of independent numbers, one per training run.

    Args:
        a: The first algorithm's score in each run.
        b: The second one's; their number may differ.
        confidence: Nominal coverage of the interval.
        level: At which `mde` is detected; 1 - confidence if absent.
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
    if error <= SAME * max(1.0, float(np.abs([before.mean(), after.mean()]).max())):
        return Unpaired(delta, delta, delta, p_value, math.inf, n)
    freedom = error**4 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True))
    half = t_quantile(both_sides(confidence), freedom) * error
    level = 1 - confidence if level is None else level
    possible = smallest_p(len(before), len(after)) <= level
    mde = (t_quantile(1 - level / 2, freedom) + t_quantile(0.8, freedom)) * error if possible else math.inf
    return Unpaired(delta, delta - half, delta + half, p_value, mde, n)


def smallest_p(runs: int, others: int) -> float:
    """Return the smallest p-value that the permutation test of so many runs can have."""
    return min(1.0, (2 if runs == others else 1) / math.comb(runs + others, runs))


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
