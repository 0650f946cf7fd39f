"""Which of several policies is better, by how much, and how sure that is; and where two runs part ways.

The policies that are compared are *sides*. A side is one evaluation, or several: of checkpoints of one algorithm that
were trained with different seeds. Two single evaluations are paired by task. Where both sides have several runs the
question is about algorithms, and the training run is the unit (metrics/labels.py).

All pairs of sides are tested, and Holm holds the level over them. Ranks are ranges: a side's rank is at best one more
than the number of sides that are better than it beyond chance, and at worst leaves out those that are worse.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from agentbench.core.errors import UsageError
from agentbench.evaluate.evidence import HIGHER_IS_BETTER, Evidence, Metric, differences
from agentbench.evaluate.lock import Difference
from agentbench.metrics.labels import unpaired
from agentbench.metrics.seeds import probability_of_improvement
from agentbench.metrics.stats import holm, mcnemar, paired

Word = Literal["better", "worse", "no difference", "not comparable"]


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared with others."""

    name: str
    runs: tuple[Evidence, ...]
    """One per training seed, or a single one."""

    def means(self, metric: Metric) -> dict[str, float]:
        """Return the mean of a metric over runs by task; tasks that every run has a value for."""
        found = [run.means(metric) for run in self.runs]
        shared = [task for task in found[0] if all(task in means for means in found)]
        return {task: math.fsum(means[task] for means in found) / len(found) for task in shared}

    def scores(self, metric: Metric) -> list[float]:
        """Return the mean over tasks of each run."""
        return [math.fsum(means.values()) / len(means) for means in (run.means(metric) for run in self.runs)]


class Flip(NamedTuple):
    """A task that one side solves in at least half of its attempts, and the other does not."""

    task: str
    seed: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Pair:
    """What b is against a."""

    a: Side
    b: Side
    metric: Metric
    unit: Literal["task", "training run"]
    n: int
    """Units of the smaller side."""
    delta: float
    """Mean of b minus mean of a."""
    low: float
    high: float
    """The interval of delta, for this pair alone, at confidence 1 - alpha."""
    p_value: float
    """Two-sided; adjusted over all pairs of the comparison. It decides."""
    mde: float
    """The smallest true difference that is found with 80 % power whatever the other pairs show: at alpha / pairs,
    which is what Holm asks of the first of them. Infinite where no difference can be found."""
    improvement: float
    """The chance that an attempt of b does better than one of a at a task, ties counting half."""
    p_mcnemar: float | None
    """Exact McNemar test, where every task was tried once on both sides."""
    flips: tuple[Flip, ...]
    marks: tuple[Difference, ...]
    """Circumstances in which they differ."""

    def verdict(self, alpha: float) -> Word:
        """Say what b is, at this level."""
        if self.p_value > alpha or self.delta == 0:
            return "no difference"
        return "better" if (self.delta > 0) == HIGHER_IS_BETTER[self.metric] else "worse"


class Rank(NamedTuple):
    """Where a side stands."""

    side: Side
    mean: float
    best: int
    worst: int
    """The ranks that the data allow."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several sides on one panel; the first one is what the others are held against."""

    metric: Metric
    alpha: float
    sides: tuple[Side, ...]
    """The comparable ones, in the order given."""
    pairs: tuple[Pair, ...]
    """All of them."""
    ranking: tuple[Rank, ...]
    refused: Mapping[str, tuple[Difference, ...]]
    """The others, and the fields that stand against them."""

    def against_first(self) -> list[Pair]:
        """Return the pairs that begin with the first side."""
        return [pair for pair in self.pairs if pair.a is self.sides[0]]


def compare(sides: Sequence[Side], *, metric: Metric = "success", alpha: float = 0.05) -> Comparison:
    """Compare sides with each other.

    Args:
        sides: At least two; the others are held against the first.
        metric: What is compared.
        alpha: How often chance alone may make any of all pairs differ.

    Raises:
        UsageError: There are fewer than two sides, or an environment knows no success.
    """
    if len(sides) < 2:
        raise UsageError("a comparison needs two runs")
    against = {side.name: _against(sides[0], side) for side in sides}
    refused = {name: tuple(d for d in found if d.kind == "match") for name, found in against.items()}
    admitted = tuple(side for side in sides if not refused[side.name])
    both = list(combinations(admitted, 2))
    pairs = [_pair(a, b, metric, alpha, len(both)) for a, b in both]
    adjusted = holm([pair.p_value for pair in pairs])
    final = tuple(replace(pair, p_value=p) for pair, p in zip(pairs, adjusted, strict=True))
    ranking = tuple(_rank(admitted, final, metric, alpha))
    return Comparison(
        metric, alpha, admitted, final, ranking, {name: found for name, found in refused.items() if found}
    )


def _against(first: Side, side: Side) -> list[Difference]:
    """List what stands against holding a side against the first, or its own runs against each other."""
    found = [difference for run in side.runs for difference in differences(first.runs[0], run)]
    return list({difference.field: difference for difference in found}.values())


def _pair(a: Side, b: Side, metric: Metric, alpha: float, pairs: int) -> Pair:
    by_run = min(len(a.runs), len(b.runs)) > 1
    before, after = a.means(metric), b.means(metric)
    tasks = [task for task in before if task in after]
    if not tasks:
        raise UsageError(f"{a.name} and {b.name} share no task with a value of {metric}")
    aligned = [[side[task] for task in tasks] for side in (before, after)]
    confidence, level = 1 - alpha, alpha / pairs
    if by_run:
        runs = unpaired(a.scores(metric), b.scores(metric), confidence=confidence, level=level)
        delta, low, high, p_value, mde, n = runs
    else:
        (delta, low, high, p_value, mde, _), n = paired(*aligned, confidence=confidence, level=level), len(tasks)
    if metric in ("success", "invalid") and math.isfinite(high - low):
        low, high = max(low, -1.0), min(high, 1.0)  # A t interval of few tasks reaches beyond what a share can change.
    return Pair(
        a=a,
        b=b,
        metric=metric,
        unit="training run" if by_run else "task",
        n=n,
        delta=delta,
        low=low,
        high=high,
        p_value=p_value,
        mde=mde,
        improvement=_improvement(a, b, metric, tasks),
        p_mcnemar=_mcnemar(a, b, metric, aligned),
        flips=_flips(a, metric, tasks, aligned),
        marks=tuple(d for d in _against(a, b) if d.kind == "warn"),
    )


def _improvement(a: Side, b: Side, metric: Metric, tasks: Sequence[str]) -> float:
    sign = 1.0 if HIGHER_IS_BETTER[metric] else -1.0
    theirs, ours = ([run.outcomes(metric) for run in side.runs] for side in (a, b))
    by_shape = defaultdict(list)  # tasks with equal numbers of attempts are compared in one go
    for task in tasks:
        columns = [[sign * value for run in runs for value in run[task]] for runs in (ours, theirs)]
        by_shape[tuple(map(len, columns))].append(columns)
    chances = [
        len(group) * float(probability_of_improvement(*(np.transpose(side) for side in zip(*group, strict=True))))
        for group in by_shape.values()
    ]
    return math.fsum(chances) / len(tasks)


def _mcnemar(a: Side, b: Side, metric: Metric, aligned: Sequence[Sequence[float]]) -> float | None:
    single = all(len(side.runs) == 1 and side.runs[0].trials == 1 for side in (a, b))
    if metric != "success" or not single:
        return None
    won = sum(new > old for old, new in zip(*aligned, strict=True))
    lost = sum(new < old for old, new in zip(*aligned, strict=True))
    return mcnemar(lost, won)


def _flips(a: Side, metric: Metric, tasks: Sequence[str], aligned: Sequence[Sequence[float]]) -> tuple[Flip, ...]:
    if metric != "success":
        return ()
    seeds = {planned.task: planned.seed for planned in a.runs[0].plan}
    both = zip(tasks, *aligned, strict=True)
    return tuple(Flip(task, seeds[task], old, new) for task, old, new in both if (old >= 0.5) != (new >= 0.5))


def _rank(sides: Sequence[Side], pairs: Sequence[Pair], metric: Metric, alpha: float) -> list[Rank]:
    above = {side.name: 0 for side in sides}
    below = dict(above)
    for pair in pairs:
        word = pair.verdict(alpha)
        if word != "no difference":
            winner, loser = (pair.b, pair.a) if word == "better" else (pair.a, pair.b)
            above[loser.name] += 1
            below[winner.name] += 1
    sign = -1.0 if HIGHER_IS_BETTER[metric] else 1.0
    means = {side.name: math.fsum(scores := side.scores(metric)) / len(scores) for side in sides}
    order = sorted(sides, key=lambda side: sign * means[side.name])
    return [Rank(side, means[side.name], 1 + above[side.name], len(sides) - below[side.name]) for side in order]
