"""How far a mean over tasks may be off: t, Wilson, clustered errors, and the chance of succeeding in k attempts.

The task is the unit, because trials of one task are alike: four trials of a task that is always solved say no more
than one. Every function here takes one value per task, except `clustered_error`, which is told the tasks.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = Sequence[float] | Iterator[float] | NDArray[Any]
"""Real numbers, one per task."""


class Estimate(NamedTuple):
    """A number, and how far it may be off."""

    mean: float
    """The number: a mean, or a statistic of a bootstrap."""
    low: float
    high: float
    n: int
    """Tasks (or training seeds) that it rests on."""

    @property
    def method(self) -> str:
        """How the interval was computed: `t`, `wilson` or `bootstrap`."""
        return "t"


class Wilson(Estimate):
    """A proportion with Wilson's score interval."""

    __slots__ = ()
    method = "wilson"


def mean_interval(values: Values, *, confidence: float = 0.95) -> Estimate:
    """Return the Student t interval of a mean.

    Args:
        values: One value per task (its mean over trials).
        confidence: Nominal coverage.

    Returns:
        The interval; unbounded for a single value.

    Raises:
        ValueError: There are no values, one is not a finite number, or the confidence is not strictly between 0 and 1.
    """
    checked, quantile = measured(values).tolist(), both_sides(confidence)
    n = len(checked)
    mean = math.fsum(checked) / n
    if n == 1:
        return Estimate(mean, -math.inf, math.inf, n)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in checked) / (n - 1) / n)
    half = t_quantile(quantile, n - 1) * error
    return Estimate(mean, mean - half, mean + half, n)


def wilson(successes: float, n: float, *, confidence: float = 0.95) -> Estimate:
    """Return the Wilson score interval of a proportion (Wilson 1927); honest at 0 % and 100 %, unlike Wald's.

    Args:
        successes: Number of successes among `n`.
        n: Number of tasks.
        confidence: Nominal coverage.

    Raises:
        ValueError: n is not positive, or successes is not within [0, n].
    """
    if not (n > 0 and 0 <= successes <= n):
        raise ValueError(f"a proportion needs 0 <= successes <= n and n > 0, got {successes} of {n}")
    successes, n = float(successes), float(n)  # A small numpy integer overflows in 4 n^2.
    z = normal_quantile(both_sides(confidence))
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Wilson(p, low, high, int(n))


def success_interval(task_means: Values, *, trials: int, confidence: float = 0.95) -> Estimate:
    """Return the interval of a success rate: Wilson for single trials and at the ends, t over task means otherwise.

    Args:
        task_means: Success rate of each task, in [0, 1].
        trials: Planned attempts at each task.
        confidence: Nominal coverage.

    Raises:
        ValueError: There are no values, or one is not a finite number.
    """
    means = measured(task_means).tolist()
    total, n = math.fsum(means), len(means)
    binary = all(mean in (0.0, 1.0) for mean in means)
    if (trials == 1 and binary) or total in (0.0, float(n)):
        return wilson(total, n, confidence=confidence)
    estimate = mean_interval(means, confidence=confidence)
    return estimate._replace(low=max(estimate.low, 0.0), high=min(estimate.high, 1.0))


def clustered_error(values: Values, tasks: Sequence[Hashable]) -> float:
    """Return the standard error of a mean over episodes whose tasks have several trials (Liang and Zeger 1986).

    With G tasks and N episodes it is sqrt(G / (G - 1) sum_g (sum_i (x_gi - mean))^2) / N. Where every task has
    equally many trials, this is the standard deviation of the task means over sqrt(G).

    Args:
        values: One value per episode.
        tasks: The task of each episode.

    Returns:
        The error; infinite for a single task.

    Raises:
        ValueError: There are no values, one is not a finite number, or the two lengths differ.
    """
    checked = measured(values)
    if len(checked) != len(tasks):
        raise ValueError(f"each value needs its task, got {len(checked)} values and {len(tasks)} tasks")
    numbers = {task: number for number, task in enumerate(dict.fromkeys(tasks))}
    if len(numbers) == 1:
        return math.inf
    sums = np.bincount([numbers[task] for task in tasks], weights=checked - checked.mean())
    return math.sqrt(len(numbers) / (len(numbers) - 1) * float(sums @ sums)) / len(checked)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased estimate of the chance that one of k attempts succeeds: 1 - C(n - c, k) / C(n, k).

    Args:
        n: Attempts made at the task.
        c: Successes among them.
        k: Attempts allowed (Chen et al. 2021, arXiv 2107.03374, equation 1).

    Raises:
        ValueError: k is not within [1, n], or c not within [0, n].
    """
    _check_attempts("pass@k", n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return the unbiased estimate of the chance that all of k attempts succeed: C(c, k) / C(n, k).

    Args:
        n: Attempts made at the task.
        c: Successes among them.
        k: Attempts that must all succeed (tau-bench, Yao et al. 2024, arXiv 2406.12045).

    Raises:
        ValueError: k is not within [1, n], or c not within [0, n].
    """
    _check_attempts("pass^k", n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def over_tasks(
    chance: Callable[[int, int, int], float], counts: Sequence[tuple[int, int]], k: int, *, confidence: float = 0.95
) -> Estimate | None:
    """Average pass@k or pass^k over the tasks that have enough attempts.

    Args:
        chance: `pass_at_k` or `pass_hat_k`.
        counts: For each task, its attempts and its successes.
        k: As in `chance`.
        confidence: Nominal coverage.

    Returns:
        The mean with its interval; `n` is the number of tasks with at least k attempts. None if there are none.

    Example:
        >>> over_tasks(pass_hat_k, [(4, 4), (4, 0), (1, 1)], 4).n
        2
    """
    enough = [(n, c) for n, c in counts if n >= k]
    if not enough:
        return None
    # With as many attempts as k there is one yes or no per task, as with single trials.
    trials = 1 if all(n == k for n, _ in enough) else k + 1
    return success_interval([chance(n, c, k) for n, c in enough], trials=trials, confidence=confidence)


def measured(values: Values) -> Array:
    """Return the values as an array, if there are any and all are finite numbers.

    Raises:
        ValueError: They are not; the message names the first that is not.
    """
    array = np.asarray(list(values) if isinstance(values, Iterator) else values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"an estimate needs a flat list of at least one value, got shape {array.shape}")
    strange = np.flatnonzero(~np.isfinite(array))
    if strange.size:
        raise ValueError(f"value {strange[0]} of {array.size} is {array[strange[0]]}: not a finite number")
    return array


def between(before: Array, after: Array) -> Array:
    """Return after - before, element by element, and 0 where only rounding tells them apart.

    0.3 and 0.1 + 0.2 are the same reward, added up in another order: a test of many such pairs would find them worse
    beyond chance. No difference that anybody measures is a billionth of what it is taken from.
    """
    scale = np.maximum(1.0, np.maximum(np.abs(before), np.abs(after)))
    differences = after - before
    return np.where(np.abs(differences) <= SAME * scale, 0.0, differences)


SAME = 1e-9
"""Numbers that differ by no more than this share of them (of 1, if they are smaller) are the same number."""


def portions(rows: int, width: int, *, cells: int = 1 << 22) -> Iterator[int]:
    """Split rows of random numbers into portions that fit into memory; yield the size of each."""
    most = max(1, cells // max(1, width))
    while rows > 0:
        yield min(rows, most)
        rows -= most


def both_sides(confidence: float) -> float:
    """Return the probability below the upper end of a two-sided interval: 0.975 at 0.95.

    Raises:
        ValueError: The confidence is not strictly between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies strictly between 0 and 1, got {confidence:g}")
    return 0.5 + confidence / 2


def t_quantile(probability: float, freedom: float) -> float:
    """Return Student's t quantile with this many degrees of freedom.

    Raises:
        ValueError: The probability is not strictly between 0 and 1.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, _open(probability)))


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile.

    Raises:
        ValueError: The probability is not strictly between 0 and 1.
    """
    from scipy.special import ndtri

    return float(ndtri(_open(probability)))


def normal_probability(z: float) -> float:
    """Return the chance that a standard normal number is at most z."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _open(probability: float) -> float:
    if not 0 < probability < 1:
        raise ValueError(f"a level or a power lies strictly between 0 and 1; this one asks for {probability:g}")
    return probability


def _check_attempts(name: str, n: int, c: int, k: int) -> None:
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError(f"{name} needs 1 <= k <= n and 0 <= c <= n, got n={n}, c={c}, k={k}")
