"""Before the compute is spent: how many tasks and trials a comparison with this baseline needs, and what they cost.

A difference is seen through two kinds of noise. *Within* a task, trials vary by luck; more trials wash it out.
*Between* tasks, the difference itself varies; only more tasks help. The baseline knows its own luck. How its
successor's losses will be distributed over the tasks nobody knows yet, so two ends are computed: **spread**, every
task keeps the same share of its success rate, and **whole**, some tasks are lost altogether and the others stay as
they are. (A gain is a loss of failures.) With the mean p of the rates, the mean s = p^2 + between of their squares, a
loss of delta, and the share kept c = 1 - delta / p, the variance of a task's difference over k trials is

    spread    (1 - c)^2 (s - p^2)  +  [(p - s) + (c p - c^2 s)] / k
    whole     (1 - c) s - delta^2  +  [(p - s) + c (p - s)] / k

The number of tasks follows by `stats.tasks_needed`. What that predicts stands beside what simulated comparisons found
in docs/notes/what-the-intervals-cover.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentbench.core.errors import UsageError
from agentbench.evaluate.evidence import Costs, Evidence, Metric
from agentbench.metrics.stats import Components, components, power_of, tasks_needed, tasks_to_trust

TRIALS = (1, 2, 4, 8)
TASKS = (30, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class Question:
    """What one wants to be able to see."""

    delta: float = 0.1
    """The difference of the means, positive."""
    margin: float = 0.05
    """The loss that `agentbench gate` must be able to rule out."""
    power: float = 0.8
    """With which chance."""
    level: float = 0.05
    """How often chance alone may show a difference."""
    metric: Metric = "success"

    def __post_init__(self) -> None:
        for name in ("delta", "margin"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise UsageError(f"--{name} is a positive difference of means, got {value:g}")
        for name in ("power", "level"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise UsageError(f"--{name} is a chance strictly between 0 and 1, got {value:g}")


class Noise(NamedTuple):
    """Standard deviation of a task's difference, over k trials by both policies."""

    spread: float
    """Every task changes by the same share."""
    whole: float
    """Some tasks change altogether, the others not at all."""
    none: float
    """Nothing changes: luck alone."""


class Size(NamedTuple):
    """What one number of trials per task asks for."""

    trials: int
    tasks: int
    """That see the difference if it is spread."""
    tasks_whole: int
    """That see it if it sits in whole tasks."""
    tasks_ok: int
    """That let the gate say `ok` of an equal policy."""
    episodes: int
    """To play with the new policy: `tasks_whole` times `trials`."""
    baseline_episodes: int
    """To play with the baseline beyond those that it has."""
    seconds: float
    """In the environment and in waiting for replies, for `episodes` one after another."""
    tokens: int
    """Sampled for `episodes`."""
    prompt_tokens: int


class Chance(NamedTuple):
    """How likely a panel shows the difference, by the t approximation.

    The sign-flip test sees less where fewer than about ten tasks would differ: it needs six that agree.
    """

    tasks: int
    trials: int
    spread: float
    whole: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a baseline says about the comparisons to come."""

    question: Question
    variance: Components
    gain: bool
    """True if the baseline has not got as much as `delta` to lose, and a gain was planned for."""
    sizes: tuple[Size, ...]
    chances: tuple[Chance, ...]

    @property
    def fewest(self) -> Size:
        """The size with the fewest episodes; nearly always one trial each, of more tasks."""
        return min(self.sizes, key=lambda size: size.episodes)


def plan(baseline: Evidence, question: Question) -> Plan:
    """Compute the sizes that would answer a question.

    Args:
        baseline: A run; its tasks should be like those to come.
        question: What is to be seen.

    Returns:
        Sizes and chances for 1, 2, 4 and 8 trials per task, or for one if the baseline has no second trial and its
        luck is unknown; all of its variance is then taken for luck, which asks for the most tasks.

    Raises:
        UsageError: The baseline has a single task, or neither a loss nor a gain of `delta` is possible from it.
    """
    outcomes = list(baseline.outcomes(question.metric).values())
    if len(outcomes) < 2:
        raise UsageError(f"{baseline.path} has {len(outcomes)} task; how tasks differ takes at least 2 to see")
    variance = components(outcomes)
    gain = question.metric == "success" and variance.mean < question.delta
    if gain and variance.mean + question.delta > 1:
        raise UsageError(
            f"--delta {question.delta:g} cannot be: the baseline succeeds at {variance.mean:.3f}, "
            "which can neither fall nor rise by as much"
        )
    sizes: list[Size] = []
    chances: list[Chance] = []
    for trials in TRIALS if variance.within is not None else TRIALS[:1]:
        noise = noise_of(variance, question, trials)
        sizes.append(_size(noise, question, trials, baseline.costs, [len(task) for task in outcomes]))
        chances.extend(_chance(noise, question, tasks, trials) for tasks in TASKS)
    return Plan(question, variance, gain, tuple(sizes), tuple(chances))


def noise_of(variance: Components, question: Question, trials: int) -> Noise:
    """Return how much a task's difference varies, under each idea of where the difference sits.

    Args:
        variance: Of the baseline.
        question: Its `delta` is the difference.
        trials: Of both policies at each task.
    """
    if question.metric != "success":
        # An unbounded number may change in any way: the spread of its change is taken for zero.
        luck = 2 * _luck(variance) / trials
        return Noise(math.sqrt(luck), math.sqrt(luck), math.sqrt(luck))
    delta, p = question.delta, variance.mean
    p = 1 - p if p < delta else p
    between = 0.0 if variance.within is None else min(variance.between, p * (1 - p))
    second, kept = p * p + between, 1 - delta / p
    luck = max(0.0, p - second)
    spread = (1 - kept) ** 2 * between + (luck + kept * p - kept**2 * second) / trials
    whole = (1 - kept) * second - delta**2 + (1 + kept) * luck / trials
    return Noise(math.sqrt(spread), math.sqrt(max(0.0, whole)), math.sqrt(2 * luck / trials))


def _luck(variance: Components) -> float:
    return variance.between if variance.within is None else variance.within


def _size(noise: Noise, question: Question, trials: int, costs: Costs, played: Sequence[int]) -> Size:
    level, power, step = question.level, question.power, _step(question, trials)
    spread, whole = (
        tasks_needed(deviation, question.delta, level=level, power=power, step=step)
        for deviation in (noise.spread, noise.whole)
    )
    if question.metric == "success":
        ok = tasks_to_trust(noise.none, question.margin, level=level, power=power)
    else:
        ok = tasks_needed(noise.none, question.margin, level=level, power=power, sides=1)
    episodes = whole * trials
    had = sum(min(trials, length) for length in sorted(played, reverse=True)[:whole])
    return Size(
        trials,
        spread,
        whole,
        ok,
        episodes,
        episodes - had,
        episodes * (costs.env_seconds + costs.policy_seconds) / costs.episodes,
        round(episodes * costs.tokens / costs.episodes),
        round(episodes * costs.prompt_tokens / costs.episodes),
    )


def _step(question: Question, trials: int) -> float:
    return 1 / trials if question.metric == "success" else 0.0


def _chance(noise: Noise, question: Question, tasks: int, trials: int) -> Chance:
    step = _step(question, trials)
    spread, whole = (
        power_of(deviation, question.delta, tasks, level=question.level, step=step)
        for deviation in (noise.spread, noise.whole)
    )
    return Chance(tasks, trials, spread, whole)
