"""Two policies on the same tasks: is one better, and would we have seen it?

Subtracting task by task removes what makes tasks differ from each other, which is most of the noise. The sign-flip
test then asks: if the two policies were alike, each task's difference might as well have had the other sign; how
often would chance alone give a mean this far from zero? It assumes no distribution (Fisher 1935, section 21).
"""

from collections.abc import Iterator
from itertools import accumulate, islice
from operator import index
from typing import Literal, NamedTuple

import numpy as np

from agentbench.core.seeding import generator
from agentbench.metrics.intervals import Array, Values, between, mean_interval, measured, portions
from agentbench.metrics.sizes import detectable, unseen

Alternative = Literal["two-sided", "greater", "less"]


class Paired(NamedTuple):
    """What the differences b - a of two policies on the same tasks say.

    **The p-value decides** whether there is a difference; the interval says how large it may be. The two can disagree
    near the threshold, because a t interval trusts the bell curve and the test does not.
    """

    delta: float
    """Mean of b - a."""
    low: float
    high: float
    """The t interval of delta over tasks."""
    p_value: float
    """Of the two-sided sign-flip test."""
    mde: float
    """The smallest true difference that this many tasks and trials would show with 80 % power; infinite where they are
    too few for the test to show any."""
    flips: tuple[int, ...]
    """Positions of the tasks that one policy solves in at least half of its trials and the other does not."""


def paired(a: Values, b: Values, *, confidence: float = 0.95, level: float | None = None, seed: int = 0) -> Paired:
    """Compare two policies task by task.

    Args:
        a: The first policy's mean of each task.
        b: The second policy's, in the same order of tasks.
        confidence: Nominal coverage of the interval.
        level: At which `mde` is detected; 1 - confidence if absent.
        seed: Of the sign-flip test where it cannot be exact.

    Raises:
        ValueError: The lengths differ, there are no tasks, or a value is not a finite number.

    Example:
        >>> result = paired([1, 1, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0])
        >>> round(result.delta, 2), result.p_value, result.flips
        (-0.5, 0.25, (1, 4, 5))
    """
    before, after = measured(a), measured(b)
    differences = subtract(before, after)
    delta, low, high, n = mean_interval(differences, confidence=confidence)
    scale = max(1.0, float(np.abs(before).max()), float(np.abs(after).max()))
    mde = detectable(_deviation(differences, scale), n, level=1 - confidence if level is None else level)
    flips = np.flatnonzero((before >= 0.5) != (after >= 0.5))
    return Paired(delta, low, high, sign_flip(differences, seed=seed), mde, tuple(flips.tolist()))


def _deviation(differences: Array, scale: float) -> float:
    """Return the standard deviation of differences; of none that vary, as if two more had flipped, one either way.

    That tasks have not differed yet does not say that they never do: a deviation of 0 would promise to detect anything.
    A flip is as large as the largest value, 1 for a success rate; the two are those of `non_inferior`.
    """
    if not between(differences[:1], differences).any():
        differences = np.append(np.zeros_like(differences), (scale, -scale))
    return float(differences.std(ddof=1))


def subtract(a: Values, b: Values) -> Array:
    """Return b - a, task by task; what only rounding tells apart is equal.

    Raises:
        ValueError: The lengths differ, there are no tasks, or a value is not a finite number.
    """
    before, after = measured(a), measured(b)
    if len(before) != len(after):
        raise ValueError(f"a paired comparison needs the same tasks twice, got {len(before)} and {len(after)} values")
    return between(before, after)


EXACT_SIZES = 20
"""The sign-flip test is exact for up to this many different sizes of differences, ..."""

EXACT_ALIKE = 10_000
"""... as long as there are no more than so many of one size ..."""

EXACT_TERMS = 1 << EXACT_SIZES
"""... and they give no more sums than this at a time."""

DRAWS = 10_000
"""Sign flips that are drawn where they are too many to enumerate."""


def sign_flip(
    differences: Values, *, alternative: Alternative = "two-sided", draws: int = DRAWS, seed: int = 0
) -> float:
    """Return the p-value of the sign-flip permutation test: are the differences symmetric about zero?

    It is exact for up to 20 differences that are not zero, and for far more where many are of equal size, as those of
    success rates are. Otherwise `draws` seeded flips give p = (1 + hits) / (1 + draws), which is never zero and keeps
    the level (Phipson and Smyth 2010).

    Args:
        differences: One per task.
        alternative: `greater` asks whether they are above zero, `less` below.
        draws: Number of random flips.
        seed: Of these.

    Raises:
        ValueError: There are no differences, or one is not a finite number.
    """
    checked = measured(differences) * (-1.0 if alternative == "less" else 1.0)
    scale = float(np.abs(checked).max())
    if scale == 0.0:
        return 1.0
    # Rounding makes 1 - 2/3 and 2/3 - 1/3 the same size, which in binary they are not.
    scaled = np.round(checked / scale, 12)
    observed = float(scaled.sum())
    sizes = np.abs(scaled[scaled != 0.0])
    sums, chances = _all_sums(sizes) or _some_sums(sizes, observed, draws, seed)
    if alternative == "two-sided":
        sums, observed = np.abs(sums), abs(observed)
    return min(1.0, float(chances[sums >= observed - ROUNDING].sum()))


ROUNDING = 1e-8
"""Sums of flipped differences this close are the same sum; the largest difference is 1."""


def _all_sums(sizes: Array) -> tuple[Array, Array] | None:
    """Return every sum of the sizes with signs and its probability, or None if they are too many.

    The k differences of one size add up to one of only k + 1 sums, with binomial probabilities; equal sums of several
    sizes are merged before the next size joins (Pagano and Tritchler 1983).
    """
    different, counts = np.unique(sizes, return_counts=True)
    if len(different) > EXACT_SIZES or counts.max() > EXACT_ALIKE:
        return None
    sums: Array = np.zeros(1)
    chances: Array = np.ones(1)
    for size, count in zip(different.tolist(), counts.tolist(), strict=True):
        if len(sums) * (count + 1) > EXACT_TERMS:
            return None
        steps = size * (2.0 * np.arange(count + 1) - count)
        tosses = [ways / (1 << count) for ways in binomials(count)]
        sums, weights = np.add.outer(sums, steps).ravel(), np.multiply.outer(chances, tosses).ravel()
        _, first, same = np.unique(np.round(sums / ROUNDING), return_index=True, return_inverse=True)
        sums, chances = sums[first], np.bincount(same, weights).astype(np.float64)
    return sums, chances


def _some_sums(sizes: Array, observed: float, draws: int, seed: int) -> tuple[Array, Array]:
    """Return the observed sum and those of random signs, all equally likely."""
    rng = generator("sign flip", seed)
    sums = [observed]
    for rows in portions(draws, len(sizes)):
        octets = rng.integers(256, size=(rows, -(-len(sizes) // 8)), dtype=np.uint8)
        ups = np.unpackbits(octets, axis=1, count=len(sizes)).astype(np.float64)
        sums.extend(2.0 * (ups @ sizes) - sizes.sum())
    return np.array(sums), np.full(len(sums), 1.0 / len(sums))


def binomials(n: int) -> Iterator[int]:
    """Yield C(n, 0), C(n, 1), ..., C(n, n), each from the one before, because large ones are slow to begin with."""
    return accumulate(range(n), lambda ways, k: ways * (n - k) // (k + 1), initial=1)


def mcnemar(b: int, c: int) -> float:
    """Return the two-sided exact p-value of McNemar's test, for single binary trials.

    Args:
        b: Tasks that only the first policy solved.
        c: Tasks that only the second one solved.

    Raises:
        ValueError: One of them is negative.
    """
    b, c = index(b), index(c)  # Powers of two outgrow a numpy integer.
    if b < 0 or c < 0:
        raise ValueError(f"McNemar's test counts tasks, got b={b}, c={c}")
    tail = sum(islice(binomials(b + c), min(b, c) + 1))
    return min(1.0, 2 * tail / (1 << (b + c)))


def holm(p_values: Values) -> list[float]:
    """Adjust p-values so that all of them together keep one level (Holm 1979), in the order given.

    Raises:
        ValueError: One is not a probability.
    """
    listed = list(p_values)
    if not listed:
        return []
    checked = measured(listed)
    if checked.min() < 0 or checked.max() > 1:
        raise ValueError(f"a p-value lies between 0 and 1, got {checked.tolist()}")
    order = np.argsort(checked, kind="stable")
    stepped = np.maximum.accumulate(checked[order] * np.arange(len(checked), 0, -1))
    rank = np.argsort(order)
    return [float(p) for p in np.minimum(stepped, 1.0)[rank]]


class NonInferior(NamedTuple):
    """Whether the second policy is worse than the first by less than a margin."""

    ok: bool
    """The t bound lies above -margin."""
    bound: float
    """One-sided lower t bound of the mean of b - a."""
    cautious: float
    """The same as if two more tasks had been played, one flipped either way; for success rates only.

    Where few tasks differ, the t bound has hardly seen a variance: near 0 % and 100 % it calls a policy ok that is
    worse by the margin in up to a fifth of all cases, this one hardly more often than it should (measured in
    docs/notes/what-the-intervals-cover.md; the imaginary flips are those of Bonett and Price 2012).
    """
    unseen: float
    """The mean if what no task has shown were lost: of the share `unseen(n)` of all tasks, everything."""
    delta: float
    margin: float

    @property
    def trusted(self) -> float:
        """The lower bound to go by for success rates; how many tasks it takes, `tasks_to_trust` says."""
        return min(self.cautious, self.unseen)


def non_inferior(a: Values, b: Values, *, margin: float = 0.05, confidence: float = 0.95) -> NonInferior:
    """Ask whether b may be trusted not to be worse than a by the margin or more.

    Args:
        a: The first policy's mean of each task.
        b: The second policy's, in the same order of tasks.
        margin: The loss that would matter.
        confidence: Of the one-sided bounds.

    Raises:
        ValueError: The margin is not positive, the lengths differ, or a value is not a finite number.
    """
    if not margin > 0:
        raise ValueError(f"a margin is a positive difference, got {margin}")
    differences, two_sided = subtract(a, b), 2 * confidence - 1
    delta, bound, *_ = mean_interval(differences, confidence=two_sided)
    cautious = mean_interval(np.append(differences, (1.0, -1.0)), confidence=two_sided).low
    share = unseen(len(differences), level=1 - confidence)
    return NonInferior(bound > -margin, bound, cautious, (1 - share) * delta - share, delta, margin)
