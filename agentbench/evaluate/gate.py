"""Is a new checkpoint as good as the one before? A gate for continuous integration, in three verdicts.

- **regressed**: worse beyond chance. The sign-flip test, one-sided and paired by task, is significant; over several
  environments Holm holds its level.
- **ok**: not worse by the margin. The one-sided lower bound of the difference, at confidence 1 - alpha, lies above
  -margin. Every environment must be.
- **inconclusive**: neither. The gate says which size would have decided.

An unchanged checkpoint is called regressed in at most alpha of all gates; one that lost the margin is called ok in
about alpha of them. `tests/benchmarks/compare_power.py` measures both: 2 to 5 % and 2 to 8 % at alpha = 5 %, the 8 %
where whole tasks are lost among 80. "The score went down" would fail 43 to 49 % of unchanged checkpoints.

**The lower bound** of a success rate is `NonInferior.trusted`: it has seen a flip, and is never above what n tasks can
show at all, since a share 1 - alpha^(1/n) of all tasks may be lost without one of n meeting it. So without
a gain fewer than 59 tasks are never ok by a margin of 0.05, however alike the outcomes, unless the runs are equal in
every turn: then they need no statistics.

**The severity guard** looks for what a mean hides: tasks that always succeeded and now always fail, in at least three
attempts each. They are named in any case. Chance makes such tasks too, of those that succeed half of the time: if
attempts are exchangeable, a task whose k successes among 2k attempts all fell before had the chance 1 / C(2k, k) of it
(Fisher's exact test). The guard fails where so many such tasks have a chance of at most alpha: a single one with three
attempts, if no other task was as undecided. Both alarms share alpha: what the guard may spend is taken from the level
of the sign-flip test, but never more than half of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from agentbench.core.errors import IntegrityError, RunInvalid, UsageError
from agentbench.evaluate.baseline import Measured, behaviour
from agentbench.evaluate.evidence import COMPARED, CONVERSATION, Evidence, Metric, compare_locks, said, table_of
from agentbench.evaluate.lock import Difference, Kind
from agentbench.metrics.collect import summarise
from agentbench.metrics.pairs import subtract
from agentbench.metrics.stats import (
    Paired,
    components,
    holm,
    non_inferior,
    paired,
    sign_flip,
    tasks_needed,
    tasks_to_trust,
)

Verdict = Literal["regressed", "ok", "inconclusive"]
Answer = Literal["regressed", "failed", "inconclusive", "ok"]
"""A verdict, or `failed`: it did not regress, and a threshold is not met. The worst comes first."""
Outcomes = Mapping[str, tuple[float, ...]]

GATED: Mapping[str, Kind] = {**COMPARED, "sampling": "match", "seed": "match"}
"""What a difference between baseline and run means: everything but the model must be the same."""

GUARDED = 3
"""Attempts that a task needs on both sides before the severity guard looks at it."""

ROUNDING = 1e-9
"""1 / C(6, 3) is 0.05 itself."""


class Size(NamedTuple):
    """A size at which an equal checkpoint is called ok with 80 % chance."""

    tasks: int
    trials: int


@dataclass(frozen=True, slots=True)
class Compared:
    """A run against its baseline, on one environment."""

    metric: Metric
    before: float
    after: float
    """Means over tasks; strict."""
    paired: Paired
    p_worse: float
    """Of the one-sided sign-flip test, adjusted over all environments of the gate."""
    bound: float
    """One-sided lower bound of the difference."""
    identical: bool
    """Every turn of every episode is the same."""
    severe: tuple[str, ...]
    """Tasks that always succeeded and now always fail."""
    odds: tuple[float, ...]
    """For each task that might have become one by chance, the chance that it did."""
    p_severe: float
    """The chance of so many of them in all environments of the gate."""
    guarded: bool
    """That chance is small enough to fail, and some of them are here."""
    level: float
    """At which `p_worse` is significant: alpha without what the severity guard may spend."""
    lost: tuple[str, ...]
    """Tasks that were solved in at least half of the attempts and no longer are."""
    won: tuple[str, ...]
    needed: tuple[Size, ...]
    marks: tuple[Difference, ...]
    """Circumstances in which the two differ."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the gate says of one environment."""

    env: str
    run: Evidence
    verdict: Verdict
    reasons: tuple[str, ...]
    compared: Compared | None
    """None where there was no baseline to compare with, only thresholds."""
    unmet: tuple[str, ...] = ()
    """Thresholds that the run stays under."""

    @property
    def answer(self) -> Answer:
        """What the gate ends with: a threshold that is not met fails one that would be ok."""
        return "failed" if self.unmet and self.verdict != "regressed" else self.verdict

    @property
    def word(self) -> str:
        """The answer for people."""
        return f"{self.verdict}, but under a threshold" if self.answer == "failed" else self.verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """When a gate opens."""

    margin: float = 0.05
    alpha: float = 0.05
    fail_under: Mapping[str, float] = field(default_factory=dict)
    """Least values of numbers in the run's summary, by name."""


def judge(runs: Mapping[str, Evidence], baseline: Mapping[str, Measured], rule: Rule) -> list[Judged]:
    """Compare runs with their baselines.

    Args:
        runs: By environment, `name/variant@version:split`.
        baseline: Likewise; may hold more environments. If empty, only `rule.fail_under` decides.
        rule: When the gate opens.

    Raises:
        RunInvalid: A run is not complete.
        UsageError: An environment has no baseline, or a threshold names no number of the summary.
        IntegrityError: A baseline is of another panel, or was measured in another way; the fields are named.
    """
    for run in runs.values():
        require_complete(run)
    compared = []
    if baseline:
        compared = _together([_compare(_of(baseline, name), run, rule) for name, run in runs.items()], rule.alpha)
    found: Sequence[Compared | None] = compared or [None] * len(runs)
    return [_judge(name, run, mine, rule) for (name, run), mine in zip(runs.items(), found, strict=True)]


def overall(judged: Sequence[Judged]) -> Answer:
    """Return the answer for all environments: the worst one."""
    return min((one.answer for one in judged), key=get_args(Answer).index, default="ok")


def exit_code(judged: Sequence[Judged], *, inconclusive: Literal["pass", "fail"] = "pass") -> int:
    """Return what the gate ends with: 1 for a regression or a threshold, 6 if it cannot tell and that should fail."""
    answer = overall(judged)
    if answer in ("regressed", "failed"):
        return 1
    return 6 if answer == "inconclusive" and inconclusive == "fail" else 0


def require_complete(run: Evidence) -> None:
    """Refuse a run that is not finished, or lost too many episodes.

    Raises:
        RunInvalid: It is not `complete`.
    """
    if run.status != "complete":
        raise RunInvalid(
            f"{run.path} is {run.status}: {len(run.rows)} of {len(run.plan)} episodes are scored; "
            f"go on with: agentbench eval --resume {run.path}"
        )


def _of(baseline: Mapping[str, Measured], name: str) -> Measured:
    if name not in baseline:
        known = ", ".join(sorted(baseline))
        raise UsageError(f"the baseline has no {name}, only {known}; add it with --update-baseline")
    return baseline[name]


def _compare(measured: Measured, run: Evidence, rule: Rule) -> Compared:
    found = compare_locks(measured.lock, run.lock, GATED)
    if run.scripted:
        found = [difference for difference in found if table_of(difference.field) not in CONVERSATION]
    before, after = measured.outcomes(), run.outcomes(measured.metric)
    refused = [difference for difference in found if difference.kind == "match"]
    if refused:
        raise IntegrityError(
            f"the baseline of {run.env} measured something else (baseline, run): {said(refused)}; "
            "evaluate as the baseline was, or measure it again with --update-baseline"
        )
    if before.keys() != after.keys():
        missing = len(before.keys() ^ after.keys())
        raise IntegrityError(f"the baseline of {run.env} and {run.path} do not have the same tasks: {missing} differ")
    return _statistics(before, after, measured, run, rule, tuple(found))


def _statistics(
    before: Outcomes, after: Outcomes, measured: Measured, run: Evidence, rule: Rule, marks: tuple[Difference, ...]
) -> Compared:
    tasks = sorted(before)
    a, b = ([math.fsum(side[task]) / len(side[task]) for task in tasks] for side in (before, after))
    result = paired(a, b, confidence=1 - rule.alpha)
    identical = measured.behaviour is not None and measured.behaviour == behaviour(run)
    severe = [task for task in tasks if _always(before[task]) and _never(after[task])]
    flipped = [tasks[place] for place in result.flips]
    lost = {task for task, old, new in zip(tasks, a, b, strict=True) if new < old}
    return Compared(
        metric=measured.metric,
        before=math.fsum(a) / len(a),
        after=math.fsum(b) / len(b),
        paired=result,
        p_worse=sign_flip(subtract(a, b), alternative="less"),
        bound=_bound(a, b, measured.metric, rule),
        identical=identical,
        severe=tuple(severe),
        odds=tuple(_odds(before, after)),
        p_severe=1.0,
        guarded=False,
        level=rule.alpha,
        lost=tuple(task for task in flipped if task in lost),
        won=tuple(task for task in flipped if task not in lost),
        needed=_needed(before, after, measured.metric, rule),
        marks=marks,
    )


def _together(compared: Sequence[Compared], alpha: float) -> list[Compared]:
    """Hold both alarms to one level over all environments."""
    tails = _tails([chance for one in compared for chance in one.odds])
    p_severe = tails[sum(len(one.severe) for one in compared)]
    reached = p_severe <= alpha * (1 + ROUNDING)
    spent = max(tail for tail in [*tails, 0.0] if tail <= alpha * (1 + ROUNDING))
    level = max(alpha - spent, alpha / 2)
    adjusted = holm([one.p_worse for one in compared])
    return [
        replace(one, p_worse=p, p_severe=p_severe, guarded=reached and bool(one.severe), level=level)
        for one, p in zip(compared, adjusted, strict=True)
    ]


def _judge(name: str, run: Evidence, compared: Compared | None, rule: Rule) -> Judged:
    unmet = tuple(_unmet(run, rule.fail_under))
    if compared is None:
        met = ("every threshold is met",) if rule.fail_under else ("there is nothing to compare with",)
        return Judged(name, run, "ok", unmet or met, None, unmet)
    alarms = []
    if compared.p_worse <= compared.level:
        alarms.append(f"worse beyond chance: one-sided p = {compared.p_worse:.2g} <= {compared.level:.2g}")
    if compared.guarded:
        tasks = f"{len(compared.severe)} task{'s' * (len(compared.severe) > 1)}"
        alarms.append(f"{tasks} always succeeded and now always fail: p = {compared.p_severe:.2g} <= {rule.alpha:g}")
    if alarms:
        return Judged(name, run, "regressed", (*alarms, *unmet), compared, unmet)
    if compared.identical:
        return Judged(name, run, "ok", ("every turn of every episode is the same", *unmet), compared, unmet)
    bound = f"the lower bound of the difference, {compared.bound:+.3f},"
    if compared.bound > -rule.margin:
        return Judged(name, run, "ok", (f"{bound} is above -{rule.margin:g}", *unmet), compared, unmet)
    undecided = f"{bound} is not above -{rule.margin:g}, and p = {compared.p_worse:.2g} > {compared.level:.2g}"
    return Judged(name, run, "inconclusive", (undecided, *unmet), compared, unmet)


def _unmet(run: Evidence, fail_under: Mapping[str, float]) -> list[str]:
    if not fail_under:
        return []
    summary = summarise(run.plan, list(run.rows.values()))
    summary |= {"success_low": summary["low"], "success_high": summary["high"]}
    known = {name: value for name, value in summary.items() if isinstance(value, int | float)}
    for name in fail_under:
        if name not in known:
            raise UsageError(f"--fail-under: {run.env} has no {name!r}; known: {', '.join(sorted(known))}")
    return [
        f"{name} = {known[name]:.4g} is under {least:g}" for name, least in fail_under.items() if known[name] < least
    ]


def _bound(a: Sequence[float], b: Sequence[float], metric: Metric, rule: Rule) -> float:
    """Return the one-sided lower bound of the mean of b - a."""
    found = non_inferior(a, b, margin=rule.margin, confidence=1 - rule.alpha)
    return found.trusted if metric == "success" else found.bound


def _needed(before: Outcomes, after: Outcomes, metric: Metric, rule: Rule) -> tuple[Size, ...]:
    """Find sizes, measured twice, at which an equal checkpoint is called ok in 80 %."""

    def tasks(deviation: float) -> int:
        if metric == "success":
            return tasks_to_trust(deviation, rule.margin, level=rule.alpha)
        return tasks_needed(deviation, rule.margin, level=rule.alpha, sides=1)

    means = [[math.fsum(side[task]) / len(side[task]) for task in before] for side in (before, after)]
    total = float(subtract(*means).var(ddof=1)) if len(before) > 1 else 0.25
    sides = [components(list(side.values())) for side in (before, after)]
    luck = [side.within for side in sides if side.within is not None]
    trials = round(max(side.trials for side in sides))
    if len(luck) < 2:
        return (Size(tasks(math.sqrt(total)), trials),)
    steady = max(0.0, total - sum(one / side.trials for one, side in zip(luck, sides, strict=True)))
    return tuple(Size(tasks(math.sqrt(steady + sum(luck) / k)), k) for k in (trials, 2 * trials, 4 * trials))


def _always(outcomes: Sequence[float]) -> bool:
    return len(outcomes) >= GUARDED and min(outcomes) == 1.0


def _never(outcomes: Sequence[float]) -> bool:
    return len(outcomes) >= GUARDED and max(outcomes) == 0.0


def _odds(before: Outcomes, after: Outcomes) -> Iterator[float]:
    """Yield, for each task that may be severe, the chance that it is if attempts are exchangeable between the runs.

    A task that had as many successes in all as it had attempts before may have had them all before, with probability
    1 / C(attempts in all, attempts before); no other task can be severe.
    """
    for task, old in before.items():
        new = after[task]
        if min(len(old), len(new)) >= GUARDED and sum(old) + sum(new) == len(old) and {*old, *new} <= {0.0, 1.0}:
            yield 1 / math.comb(len(old) + len(new), len(old))


def _tails(odds: Sequence[float]) -> list[float]:
    """Return the chance of at least 0, 1, 2, ... successes of independent draws with these odds."""
    chances = np.ones(1)
    for chance in odds:
        chances = np.convolve(chances, [1 - chance, chance])
    return [min(1.0, float(tail)) for tail in np.cumsum(chances[::-1])[::-1]]
