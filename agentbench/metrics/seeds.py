"""Whether an algorithm is better, not only a checkpoint: several training runs that differ in their seed.

The unit is the training run. Train at least `ENOUGH_SEEDS` of each, with a seed that also changes the warm start; with
5, the smallest two-sided sign-flip p-value is .0625 and a percentile bootstrap covers 83 % where it says 95 %. Scores
are arrays [seed, task], normalised to [0, 1] where tasks are pooled.

The measures are those of Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice
(arXiv 2108.13264). `iqm` is in bootstrap.py; `bootstrap(iqm, scores)` draws whole training runs again.
"""

import numpy as np

from agentbench.metrics.bootstrap import Sample, by_unit
from agentbench.metrics.intervals import Array, Estimate, between, mean_interval

ENOUGH_SEEDS = 8
"""Training runs per algorithm from which an interval means something."""


def over_seeds(scores: Sample, *, confidence: float = 0.95) -> Estimate:
    """Return the t interval of an algorithm's mean score over training runs.

    Args:
        scores: [seed, task], or one score per seed.
        confidence: Nominal coverage.

    Raises:
        ValueError: There are no scores, or one is not a finite number.
    """
    return mean_interval(by_unit(scores).mean(axis=1), confidence=confidence)


def probability_of_improvement(ours: Sample, theirs: Sample) -> Array:
    """Return the chance that a run of ours beats one of theirs on a task, ties counting half, averaged over tasks.

    This is the Mann-Whitney statistic as a share of pairs (Agarwal et al. 2021, section 4.3).

    Args:
        ours: [..., seed, task].
        theirs: [..., seed, task], the same tasks; the number of seeds may differ.

    Returns:
        [...]; `bootstrap(probability_of_improvement, ours, theirs)` adds its interval.

    Raises:
        ValueError: The tasks differ in number.
    """
    first, second = by_unit(ours), by_unit(theirs)
    if first.shape[-1] != second.shape[-1]:
        raise ValueError(f"both need the same tasks, got {first.shape[-1]} and {second.shape[-1]}")
    pairs = np.sign(between(second[..., np.newaxis, :, :], first[..., :, np.newaxis, :]))
    return np.asarray((0.5 + 0.5 * pairs).mean(axis=(-3, -2, -1)))


def optimality_gap(sample: Sample, *, target: float = 1.0) -> Array:
    """Return how far scores stay below the target on average; what lies above it makes up for nothing.

    Args:
        sample: [..., seed, task], or a flat list.
        target: What counts as solved (Agarwal et al. 2021, section 4.3).
    """
    return np.asarray(target - np.minimum(by_unit(sample), target).mean(axis=(-2, -1)))
