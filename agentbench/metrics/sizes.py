"""How many tasks and trials a difference needs before it can be seen (and how small a difference a size can see).

A mean over n tasks of differences with standard deviation s has the error s / sqrt(n). It is detected at a level with
a given power if it is at least (t[1 - level / sides] + t[power]) such errors away from zero.
"""

import math
from collections.abc import Sequence
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
        The minimum detectable effect; infinite for a single task.
    """
    if n < 2:
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
    # With fewer tasks than this, even unanimous ones do not make a sign-flip p-value as small as the level.
    low = high = math.ceil(math.log2(sides / level))

    def enough(n: int) -> bool:
        return detectable(deviation, n, level=level, power=power, sides=sides, step=step) <= effect

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

    if n < 2:
        return 0.0
    seen = effect - step / n
    if deviation == 0.0:
        return float(seen > 0)
    return float(stdtr(n - 1, seen * math.sqrt(n) / deviation - t_quantile(1 - level / sides, n - 1)))


def tasks_to_meet(share: float, *, level: float = 0.05) -> int:
    """Return how many tasks it takes to meet one of the tasks that were lost, if a share of all was lost whole.

    With fewer, all of them miss it with a chance above the level: they prove nothing, however much alike they are.

    Args:
        share: In (0, 1).
        level: The chance (1 - share)^n of meeting none that is tolerated.

    Raises:
        ValueError: The share is not strictly between 0 and 1.

    Example:
        >>> tasks_to_meet(0.05)
        59
    """
    if not 0 < share < 1:
        raise ValueError(f"a share of tasks lies strictly between 0 and 1, got {share}")
    return math.ceil(math.log(level) / math.log1p(-share))


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
