"""How many tasks and trials a difference needs before it can be seen (and how small a difference a size can see).

A mean over n tasks of differences with standard deviation s has the error s / sqrt(n). It is detected at a level with
a given power if it is at least (t[1 - level / sides] + t[power]) such errors away from zero, and if the tasks are not
so few that the sign-flip test cannot say so however much they agree.
"""

import math
from collections.abc import Callable, Sequence
from statistics import harmonic_mean
from typing import Literal, NamedTuple

import numpy as np

from agentbench.metrics.intervals import Values, measured, t_quantile

Sides = Literal[1, 2]


def detectable(
    deviation: float, n: int, *, level: float = 0.05, power: float = 0.8, sides: Sides = 2, step: float = 0.0
) -> float:
    """Return the smallest true mean difference that n tasks would show.

    Args:
        deviation: Standard deviation of the differences between tasks.
        n: Tasks.
        level: How often chance alone may show one.
        power: How often a true one of this size shows.
        sides: 2 to ask whether there is a difference, 1 to ask whether there is a loss.
        step: What differences are multiples of, where they are: 1 / trials for success rates. The sign-flip test then
            has a p-value for every second step of their sum only, which costs half of that (a continuity correction).

    Returns:
        The minimum detectable effect; infinite for fewer than `fewest_tasks`.
    """
    if n < fewest_tasks(level=level, sides=sides):
        return math.inf
    errors = t_quantile(1 - level / sides, n - 1) + t_quantile(power, n - 1)
    return errors * deviation / math.sqrt(n) + step / n


def tasks_needed(
    deviation: float, effect: float, *, level: float = 0.05, power: float = 0.8, sides: Sides = 2, step: float = 0.0
) -> int:
    """Return the smallest number of tasks that shows a true mean difference of this size.

    With a margin as `effect`, `sides=1` and differences around zero, this is the size at which two equal policies
    are found non-inferior with this power.

    Args:
        deviation: Standard deviation of the differences between tasks.
        effect: The difference, positive.
        level: As in `detectable`.
        power: As in `detectable`.
        sides: As in `detectable`.
        step: As in `detectable`.

    Raises:
        ValueError: The effect is not positive.
    """
    if not effect > 0:
        raise ValueError(f"the difference to be seen must be positive, got {effect}")

    def enough(n: int) -> bool:
        return detectable(deviation, n, level=level, power=power, sides=sides, step=step) <= effect

    return _smallest(enough, fewest_tasks(level=level, sides=sides))


def fewest_tasks(*, level: float = 0.05, sides: Sides = 2) -> int:
    """Return how many tasks a sign-flip test needs to say anything: n unanimous ones have the p-value sides / 2^n.

    Args:
        level: As in `detectable`.
        sides: As in `detectable`.

    Raises:
        ValueError: The level is not strictly between 0 and 1.

    Example:
        >>> fewest_tasks(), fewest_tasks(level=0.001)
        (6, 11)
    """
    if not 0 < level < 1:
        raise ValueError(f"a level lies strictly between 0 and 1, got {level:g}")
    return max(2, math.ceil(math.log2(sides / level)))


def _smallest(enough: Callable[[int], bool], low: int) -> int:
    """Return the smallest size from `low` on that is enough; every larger one must be enough too."""
    high = low
    while not enough(high):
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def power_of(
    deviation: float, effect: float, n: int, *, level: float = 0.05, sides: Sides = 2, step: float = 0.0
) -> float:
    """Return the chance that n tasks show a true mean difference of this size; `detectable` is its inverse.

    Args:
        deviation: As in `detectable`.
        effect: The difference, positive.
        n: Tasks.
        level: As in `detectable`.
        sides: As in `detectable`.
        step: As in `detectable`.
    """
    from scipy.special import stdtr

    if n < fewest_tasks(level=level, sides=sides):
        return 0.0
    seen = effect - step / n
    if deviation == 0.0:
        return float(seen > 0)
    return float(stdtr(n - 1, seen * math.sqrt(n) / deviation - t_quantile(1 - level / sides, n - 1)))


def tasks_to_trust(deviation: float, margin: float, *, level: float = 0.05, power: float = 0.8) -> int:
    """Return the smallest number of tasks at which an equal policy's success rate is trusted with this power.

    Trusted is what `agentbench gate` calls ok: both bounds of `NonInferior.trusted` are above -margin. Of n differences
    with the mean d, the cautious one is d n / (n + 2) - t s' / sqrt(n + 2), with the variance s'^2 of n + 2 of them,
    two of which are imaginary flips; the other is (1 - u) d - u, with u = `unseen(n)`. Each is a condition on d, which
    an equal policy spreads around 0 with the error s / sqrt(n).

    Args:
        deviation: Standard deviation of the differences between tasks.
        margin: The loss that would matter.
        level: How often a policy that lost the margin may be trusted.
        power: How often an equal one is.

    Raises:
        ValueError: The margin is not positive.
    """
    if not margin > 0:
        raise ValueError(f"a margin is a positive difference, got {margin}")

    def enough(n: int) -> bool:
        share, played = unseen(n, level=level), n + 2
        imagined = math.sqrt((n * deviation**2 + 2) / (played - 1))
        cautious = (margin - t_quantile(1 - level, played - 1) * imagined / math.sqrt(played)) * played / n
        room = min(cautious, (margin - share) / (1 - share))
        return room > 0 and room >= t_quantile(power, n - 1) * deviation / math.sqrt(n)

    return _smallest(enough, 2)


def unseen(n: int, *, level: float = 0.05) -> float:
    """Return the share of all tasks that may be lost whole although none of n was: (1 - share)^n is the level.

    Example:
        >>> round(unseen(59), 4)
        0.0495
    """
    return 1 - math.pow(level, 1 / int(n))


class Components(NamedTuple):
    """How the outcomes of one policy vary."""

    between: float
    """Variance of the tasks' true means: how much tasks differ."""
    within: float | None
    """Mean variance of single trials of one task: the policy's own luck. None if no task has two trials."""
    mean: float
    """Mean of task means."""
    tasks: int
    trials: float
    """Trials per task (harmonic mean)."""


def components(outcomes: Sequence[Values]) -> Components:
    """Split the variance of outcomes into between and within tasks (one-way random effects).

    Args:
        outcomes: The outcomes of each task's trials.

    Returns:
        The split; `between` holds everything if no task has two trials, and is never below zero.

    Raises:
        ValueError: There is no task, a task has no trial, or an outcome is not a finite number.
    """
    trials = [measured(task) for task in outcomes]
    means = measured([float(task.mean()) for task in trials])
    total = float(means.var(ddof=1)) if len(means) > 1 else 0.0
    harmonic = harmonic_mean([len(task) for task in trials])
    several = [float(task.var(ddof=1)) for task in trials if len(task) > 1]
    within = float(np.mean(several)) if several else None
    between = max(0.0, total - (within or 0.0) / harmonic)
    return Components(between, within, float(means.mean()), len(trials), harmonic)
