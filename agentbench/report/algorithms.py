"""A comparison of training runs: several algorithms, each trained with several seeds. The training run is the unit.

What is compared is success on the valid panel after the last update, not at the best one: a maximum over checkpoints
grows with their number and with their noise. Runs of one algorithm are those that are named alike; if their recipes
differ in more than the seed, that is said.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from agentbench.core.errors import RunInvalid, UsageError
from agentbench.core.records import canonical
from agentbench.evaluate.compare import Word
from agentbench.metrics.labels import Unpaired, smallest_p, unpaired
from agentbench.metrics.stats import (
    ENOUGH_SEEDS,
    Covered,
    holm,
    iqm,
    median,
    optimality_gap,
    over_seeds,
    probability_of_improvement,
    with_coverage,
)
from agentbench.report.chapters import Chapter
from agentbench.report.compare import COVERS, chance, confident, covered_cells, covered_record, detectable
from agentbench.report.curves import Group, entropy_curves, outcome_curves
from agentbench.report.runs import Training
from agentbench.report.tables import Table, Value, interval, percent

NAME = "valid/success"

SUMMARIES = {"median": median, "interquartile mean": iqm, "optimality gap": optimality_gap}
"""What else is said of an algorithm's runs beside their mean."""

_SAME = (
    "env",
    "env_args",
    "rollout.max_turns",
    "rollout.format",
    "rollout.context",
    "rollout.token_limit",
    "validation",
)
"""Keys of a recipe that decide what is measured; they must be equal."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Training runs that are told apart by their seed."""

    name: str
    runs: tuple[Training, ...]

    @property
    def finals(self) -> list[float]:
        """Success on the valid panel after the last update of each run."""
        return [float(run.validated[-1][NAME]) for run in self.runs]


class Versus(NamedTuple):
    """One algorithm against another."""

    a: Algorithm
    b: Algorithm
    result: Unpaired
    p_value: float
    """Adjusted over all pairs."""
    improvement: Covered
    """The chance that a run of b ends better than one of a, ties counting half."""

    def verdict(self, alpha: float) -> Word:
        """Say what b is, at this level."""
        if self.p_value > alpha or self.result.delta == 0:
            return "no difference"
        return "better" if self.result.delta > 0 else "worse"


def group_algorithms(named: Sequence[tuple[str | None, Training]]) -> list[Algorithm]:
    """Put training runs together by the name that was given them, or by their algorithm.

    Raises:
        RunInvalid: A run was never measured on the valid panel.
    """
    by_name: dict[str, list[Training]] = defaultdict(list)
    for name, run in named:
        if not run.validated:
            raise RunInvalid(f"{run.run.path} was never measured on the valid panel: there is nothing to compare")
        by_name[name or run.algorithm].append(run)
    return [Algorithm(name, tuple(runs)) for name, runs in by_name.items()]


def require_same(algorithms: Sequence[Algorithm]) -> None:
    """Refuse runs that were measured on different things.

    Raises:
        UsageError: With the keys of the recipes that differ.
    """
    configs = [run.state["config"] for algorithm in algorithms for run in algorithm.runs]
    fields = sorted({field for config in configs[1:] for field in differing(configs[0], config) if _matters(field)})
    if fields:
        values = "; ".join(f"{field} ({', '.join(_values(configs, field))})" for field in fields)
        raise UsageError(f"the training runs are not comparable: {values}")


def compare_algorithms(algorithms: Sequence[Algorithm], alpha: float) -> list[Versus]:
    """Compare every algorithm with every other one; Holm holds the level over all pairs.

    Args:
        algorithms: At least two.
        alpha: The level.

    Returns:
        The pairs, with intervals of each one alone at confidence 1 - alpha. A detectable difference is one that is
        found whatever the other pairs show: at alpha / pairs, which is what Holm asks of the first.

    Raises:
        UsageError: There is only one.
    """
    if len(algorithms) < 2:
        raise UsageError(
            f"all runs are of {algorithms[0].name}: name what differs, as in `compare with=RUN with=RUN without=RUN`"
        )
    pairs = list(combinations(algorithms, 2))
    results = [unpaired(a.finals, b.finals, confidence=1 - alpha, level=alpha / len(pairs)) for a, b in pairs]
    adjusted = holm([result.p_value for result in results])
    return [
        Versus(a, b, result, p, with_coverage(probability_of_improvement, b.finals, a.finals))
        for (a, b), result, p in zip(pairs, results, adjusted, strict=True)
    ]


def record_algorithm(versus: Versus, alpha: float) -> dict[str, Any]:
    """Return what one algorithm is against another, for programs."""
    numbers = {key: _finite(value) for key, value in versus.result._asdict().items()} | {"p_value": versus.p_value}
    about = {"a": versus.a.name, "b": versus.b.name, "metric": NAME, "unit": "training run"}
    sides = {"a": versus.a, "b": versus.b}
    said = {key: {name: covered_record(found) for name, found in summaries(one).items()} for key, one in sides.items()}
    improvement = covered_record(versus.improvement)
    return {"verdict": versus.verdict(alpha), **numbers, **about, "improvement": improvement, "summaries": said}


def pairs_table(pairs: Sequence[Versus], alpha: float) -> Table:
    """Return every pair."""
    rows: list[list[Value]] = [
        [
            pair.b.name,
            pair.a.name,
            pair.verdict(alpha),
            interval(pair.result.delta, pair.result.low, pair.result.high, rate=True),
            chance(pair.p_value),
            detectable(pair.result.mde, percent),
            *covered_cells(pair.improvement, percent),
        ]
        for pair in pairs
    ]
    change = f"change [{confident(alpha)}]"
    columns = ("algorithm", "against", "verdict", change, "p", "detectable", "improves [95 %]", COVERS)
    return Table("Success on the valid panel after the last update", columns, rows)


def algorithm_chapters(algorithms: Sequence[Algorithm], pairs: Sequence[Versus], alpha: float) -> Iterator[Chapter]:
    """Yield what the comparison says, the answer first."""
    groups = [Group(_label(one), list(one.runs), colour) for colour, one in enumerate(algorithms)]
    yield Chapter("Answer", [pairs_table(pairs, alpha), *doubts(algorithms)])
    yield Chapter("Ranking", [ranking(algorithms, pairs, alpha), summaries_table(algorithms)])
    yield Chapter("Curves", [*outcome_curves(groups), *entropy_curves(groups)])
    rows: list[list[Value]] = [
        [
            one.name,
            str(run.state["config"]["seed"]),
            percent(final),
            percent(max(float(row[NAME]) for row in run.validated)),
            run.run.path.name,
        ]
        for one in algorithms
        for run, final in zip(one.runs, one.finals, strict=True)
    ]
    yield Chapter("Runs", [Table("Every training run", ("algorithm", "seed", "last", "best", "run"), rows)])


def ranking(algorithms: Sequence[Algorithm], pairs: Sequence[Versus], alpha: float) -> Table:
    """Return the algorithms by their mean, with the ranks that the data allow."""
    rows: list[list[Value]] = []
    for one in sorted(algorithms, key=lambda one: -float(np.mean(one.finals))):
        better = sum(_wins(pair, one, alpha) == -1 for pair in pairs)
        worse = sum(_wins(pair, one, alpha) == 1 for pair in pairs)
        best, worst = 1 + better, len(algorithms) - worse
        found = over_seeds(one.finals)
        mean = interval(found.mean, found.low, found.high, rate=True)
        place = str(best) if best == worst else f"{best}–{worst}"
        rows.append([place, one.name, mean, len(one.runs)])
    columns = ("rank", "algorithm", "mean [95 %]", "seeds")
    return Table("Ranks are ranges: algorithms that chance alone may have ordered share their ranks", columns, rows)


def summaries(one: Algorithm) -> dict[str, Covered]:
    """Return the `SUMMARIES` of an algorithm's runs, which are drawn again for their intervals."""
    return _summaries(tuple(one.finals))


@cache
def _summaries(finals: tuple[float, ...]) -> dict[str, Covered]:
    return {name: with_coverage(statistic, finals) for name, statistic in SUMMARIES.items()}


def summaries_table(algorithms: Sequence[Algorithm]) -> Table:
    """Return what else there is to say of each algorithm's runs."""
    rows: list[list[Value]] = [
        [one.name, name, *covered_cells(found, percent)] for one in algorithms for name, found in summaries(one).items()
    ]
    title = "Beside the mean: intervals by drawing runs again, and how often such an interval holds the truth"
    return Table(title, ("algorithm", "what", "value [95 %]", COVERS), rows)


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Return the keys in which two recipes differ, those of a table with a dot."""
    first, second = (dict(_flat(config)) for config in (ours, theirs))
    return sorted(k for k in first.keys() | second.keys() if canonical(first.get(k)) != canonical(second.get(k)))


def doubts(algorithms: Sequence[Algorithm]) -> Iterator[str]:
    """Yield what stands against trusting a comparison of these runs."""
    fewest, second = sorted(len(one.runs) for one in algorithms)[:2]
    if fewest < ENOUGH_SEEDS:
        least = smallest_p(fewest, second)
        yield (
            f"With {fewest} training run{'s' * (fewest > 1)} of an algorithm an interval means little, and no p-value "
            f"can be smaller than {least:.2g}; train at least {ENOUGH_SEEDS} of each."
        )
    for one in algorithms:
        first = one.runs[0].state["config"]
        fields = {field for run in one.runs[1:] for field in differing(first, run.state["config"])} - {"seed", "out"}
        if fields:
            yield f"The runs of {one.name} differ in more than their seed: {', '.join(sorted(fields))}."
        unfinished = [run for run in one.runs if run.state["status"] != "complete"]
        if unfinished:
            yield f"{len(unfinished)} runs of {one.name} are not complete: their last update is not that of the recipe."


def _wins(pair: Versus, one: Algorithm, alpha: float) -> int:
    """Return 1 if the algorithm is the better one of this pair, -1 if the worse one, 0 if neither or not in it."""
    word = pair.verdict(alpha)
    if word == "no difference" or one not in (pair.a, pair.b):
        return 0
    return 1 if (word == "better") == (one is pair.b) else -1


def _label(one: Algorithm) -> str:
    return f"{one.name}, {len(one.runs)} seeds" if len(one.runs) > 1 else one.name


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _matters(field: str) -> bool:
    return any(field == same or field.startswith(f"{same}.") for same in _SAME)


def _values(configs: Sequence[Mapping[str, Any]], field: str) -> list[str]:
    return list(dict.fromkeys(str(dict(_flat(config)).get(field, "absent")) for config in configs))


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") else None
