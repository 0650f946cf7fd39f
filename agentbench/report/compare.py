"""A comparison of evaluations, told to a reader: who is better, by how much, where they differ, and what to doubt."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentbench.core.plain import plain
from agentbench.evaluate.compare import Comparison, Pair, Side
from agentbench.evaluate.evidence import HIGHER_IS_BETTER, Evidence, said
from agentbench.evaluate.parting import Parting, Partings
from agentbench.evaluate.scaling import scale
from agentbench.metrics.collect import summarise
from agentbench.metrics.stats import Covered, fewest_tasks, mean_interval, ratio, with_coverage
from agentbench.report.chapters import Block, Chapter, Excerpt, Fact
from agentbench.report.figures import Drawing, Series, draw_bars, draw_lines
from agentbench.report.tables import Cell, Table, Value, interval, number, percent, seconds

EXAMPLES = 12
"""Episodes whose parting is shown in full."""
SHOWN = 4000
"""Characters of an observation or an action that are shown."""


def tokens_per_success(side: Side) -> Covered | None:
    """Return what a side samples for each success: all of its tokens over all of its successes, drawn again by task.

    Returns:
        None where there is nothing to divide: no success, no tokens (scripted policies), or no notion of success.
    """
    if not all(run.knows_success for run in side.runs):
        return None
    solved, tokens = ([run.outcomes(metric) for run in side.runs] for metric in ("success", "tokens"))
    sample = [
        [math.fsum(value for run in runs for value in run.get(task, ())) for runs in (tokens, solved)]
        for task in solved[0]
    ]
    spent, successes = (math.fsum(column) for column in zip(*sample, strict=True))
    return with_coverage(ratio, sample) if spent and successes else None


def covered_record(found: Covered | None) -> dict[str, float | None] | None:
    """Return a resampled statistic for programs; what is unbounded is null."""
    if found is None:
        return None
    ends = {name: getattr(found.estimate, name) for name in ("mean", "low", "high")}
    return {name: end if math.isfinite(end) else None for name, end in ends.items()} | {"coverage": found.coverage}


def covered_cells(found: Covered, show: Callable[[float], Cell]) -> list[Value]:
    """Return a resampled statistic with its interval, and the simulated coverage of that."""
    mean, low, high, n = found.estimate
    text = show(mean).text if n == 1 else f"{show(mean).text} [{_end(low, show)}, {_end(high, show)}]"
    return [Cell(text, mean), percent(found.coverage)]


def _end(value: float, show: Callable[[float], Cell]) -> str:
    return show(value).text.removesuffix(" %") if math.isfinite(value) else "∞"


COVERS = "simulated coverage"
"""The column beside a resampled interval."""


def record(comparison: Comparison, name: str) -> dict[str, Any]:
    """Return what one side is against the first, for programs; `b` against `a`."""
    refused = comparison.refused.get(name)
    if refused is not None:
        empty = dict.fromkeys(("delta", "low", "high", "p_value", "mde"))
        return {"verdict": "not comparable", **empty, "b": name, "fields": [d.field for d in refused]}
    pair = next(pair for pair in comparison.against_first() if pair.b.name == name)
    bounded = {key: value if abs(value) != float("inf") else None for key, value in _numbers(pair).items()}
    about = {"a": pair.a.name, "b": name, "metric": pair.metric, "unit": pair.unit, "n": pair.n}
    return {"verdict": pair.verdict(comparison.alpha), **bounded, **about, "fields": [d.field for d in pair.marks]}


def sentence(comparison: Comparison, pair: Pair) -> str:
    """Say in one line what the second side is against the first."""
    word = pair.verdict(comparison.alpha)
    verdict = {"better": "is better than", "worse": "is worse than"}.get(word, "shows no difference from")
    change = interval(pair.delta, pair.low, pair.high, rate=_is_rate(pair.metric)).text
    return (
        f"{pair.b.name} {verdict} {pair.a.name}: {pair.metric} {change}, p = {pair.p_value:.3g} "
        f"(level {comparison.alpha:g}, unit: {pair.unit}, n = {pair.n})"
    )


def chapters(
    comparison: Comparison, partings: Partings | None, costs: Mapping[str, Covered | None]
) -> Iterator[Chapter]:
    """Yield what a comparison says, the answer first.

    Args:
        comparison: Of evaluations.
        costs: `tokens_per_success` by name of the side.
        partings: Where two single runs part; None where more than two are compared.
    """
    yield Chapter("Answer", list(_answer(comparison)))
    if len(comparison.sides) > 2:
        yield Chapter("Ranking", [_ranking(comparison)])
    costing = [table for table in (costs_table(costs),) if table.rows]
    yield Chapter("Runs", [_runs(comparison.sides), *costing, *_figures(comparison)])
    flips = [pair for pair in comparison.against_first() if pair.flips]
    if flips:
        yield Chapter("Flips", [_flips(pair) for pair in flips])
    if partings is not None:
        yield Chapter("Where they part", list(_parting(comparison, partings)))
    yield Chapter("How to read this", list(_reading(comparison)))


def _answer(comparison: Comparison) -> Iterator[Block]:
    if len(comparison.pairs) == 1:
        yield _tiles(comparison.pairs[0], comparison.alpha)
    for pair in comparison.against_first():
        yield sentence(comparison, pair) + "."
    for name, fields in comparison.refused.items():
        yield f"{name} is not comparable with {comparison.sides[0].name}: {said(fields)}."
    yield pairs_table(comparison)
    for pair in comparison.against_first():
        if pair.marks:
            yield f"{pair.b.name} was not measured as {pair.a.name} was: {said(pair.marks)}."


def _tiles(pair: Pair, alpha: float) -> list[Fact]:
    show = percent if _is_rate(pair.metric) else number
    means = [show(sum(side.scores(pair.metric)) / len(side.runs)).text for side in (pair.a, pair.b)]
    bounds = f"{confident(alpha)}: {show(pair.low).text} to {show(pair.high).text}"
    return [
        Fact("verdict", pair.verdict(alpha), f"{pair.b.name} against {pair.a.name}"),
        Fact(f"change of {pair.metric}", show(pair.delta).text, bounds),
        Fact("p-value", chance(pair.p_value).text, f"it decides, at {alpha:g}"),
        Fact("from, to", " → ".join(means).replace(" % →", " →"), f"{pair.n} {pair.unit}s"),
        Fact("detectable", detectable(pair.mde, show).text, "with 80 % power"),
    ]


def pairs_table(comparison: Comparison) -> Table:
    """Return the sides against the first one."""
    rate = _is_rate(comparison.metric)
    show = percent if rate else number
    rows: list[list[Value]] = []
    for pair in comparison.against_first():
        change = interval(pair.delta, pair.low, pair.high, rate=rate)
        cells: list[Value] = [pair.b.name, pair.verdict(comparison.alpha), change, chance(pair.p_value)]
        rows.append([*cells, chance(pair.p_mcnemar), detectable(pair.mde, show), percent(pair.improvement)])
    rows += [[name, "not comparable", *[None] * 5] for name in comparison.refused]
    change_column = f"change [{confident(comparison.alpha)}]"
    columns = ("side", "verdict", change_column, "p", "p McNemar", "detectable", "improves")
    return Table(f"{comparison.metric} against {comparison.sides[0].name}", columns, rows)


def chance(p_value: float | None) -> Cell:
    """Return a p-value as people read it."""
    small = p_value is not None and p_value < 0.0001
    return Cell("< 0.0001", p_value) if small else number(p_value, 4)


def detectable(mde: float, show: Callable[[float], Cell]) -> Cell:
    """Return the smallest difference that would be found, or that none would."""
    return show(mde) if math.isfinite(mde) else Cell("none")


def confident(alpha: float) -> str:
    """Return the confidence that belongs to a level, as people read it: 95 %."""
    return f"{100 * (1 - alpha):g} %"


def costs_table(costs: Mapping[str, Covered | None]) -> Table:
    """Return what a success costs each side, where that can be said."""
    rows = [[name, *covered_cells(cost, lambda value: number(value, 1))] for name, cost in costs.items() if cost]
    title = "What a success costs: interval by drawing tasks again, and how often such an interval holds the truth"
    return Table(title, ("side", "tokens per success [95 %]", COVERS), rows)


def _ranking(comparison: Comparison) -> Table:
    show = percent if _is_rate(comparison.metric) else number
    rows: list[list[Value]] = []
    first = comparison.sides[0]
    chances = {pair.b.name: percent(pair.improvement) for pair in comparison.against_first()}
    for rank in comparison.ranking:
        place = str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"
        cells: list[Value] = [Cell(place), rank.side.name, show(rank.mean), chances.get(rank.side.name)]
        rows.append([*cells, len(rank.side.runs)])
    title = "Ranks are ranges: sides that chance alone may have ordered share their ranks"
    columns = ("rank", "side", comparison.metric, f"beats an attempt of {first.name}", "runs")
    return Table(title, columns, rows)


def _runs(sides: Sequence[Side]) -> Table:
    rows = [_run(side, run) for side in sides for run in side.runs]
    columns = (
        "side", "success, strict [95 %]", "scored only", "coverage", "tasks × trials", "reward", "turns", "invalid",
        "tokens", "time in policy", "status", "run",
    )  # fmt: skip
    return Table("Every run, with its three denominators", columns, rows)


def _run(side: Side, run: Evidence) -> list[Value]:
    summary = summarise(run.plan, list(run.rows.values()))
    return [
        side.name,
        interval(summary["success"], summary["low"], summary["high"], rate=True),
        percent(summary["success_scored"]),
        percent(summary["coverage"]),
        f"{len(run.tasks)} × {run.trials}",
        interval(summary["reward"], summary["reward_low"], summary["reward_high"]),
        number(summary["turns"]),
        percent(summary["invalid_rate"]),
        number(summary["tokens"], 1),
        seconds(summary["policy_seconds"]),
        run.status,
        run.path.name,
    ]


def _figures(comparison: Comparison) -> Iterator[Drawing]:
    curves = [line for colour, side in enumerate(comparison.sides) for line in _by_turns(side, colour)]
    if curves:
        caption = "What each would have achieved with fewer turns (bands: 95 %); one line per side."
        yield draw_lines("turns", curves, title="Success within so many turns", x="turns", y="success", caption=caption,
                         rate=True, logarithmic=True)  # fmt: skip
    changes = [
        Series(pair.b.name, range(1, len(values) + 1), values, colour=colour)
        for colour, pair in enumerate(comparison.against_first(), start=1)
        for values in [_changes(pair)]
    ]
    if changes:
        caption = "Each task's change, sorted. Left of the flat part tasks were lost, right of it they were won."
        title = f"Change of {comparison.metric} by task, against {comparison.sides[0].name}"
        yield draw_lines("changes", changes, title=title, x="tasks, sorted by change", y="change", caption=caption)


def _by_turns(side: Side, colour: int) -> Iterator[Series]:
    """Yield success by turn budget: the mean over tasks of a single run, over runs of several."""
    if not all(run.knows_success for run in side.runs):
        return
    found = [
        [point for point in scale(run.plan, list(run.rows.values())) if point.budget == "turns"] for run in side.runs
    ]
    if len(found) == 1:
        points = found[0]
        low, high = [point.low for point in points], [point.high for point in points]
        yield Series(side.name, [p.size for p in points], [p.mean for p in points], low, high, colour, points=True)
        return
    sizes = sorted(set.intersection(*({point.size for point in points} for points in found)))
    bands = [mean_interval([point.mean for points in found for point in points if point.size == k]) for k in sizes]
    low, high = [max(0.0, band.low) for band in bands], [min(1.0, band.high) for band in bands]
    yield Series(side.name, sizes, [band.mean for band in bands], low, high, colour, points=True)


def _changes(pair: Pair) -> list[float]:
    before, after = pair.a.means(pair.metric), pair.b.means(pair.metric)
    return sorted(after[task] - before[task] for task in before if task in after)


def _flips(pair: Pair) -> Table:
    lost = sum(flip.after < flip.before for flip in pair.flips)
    title = f"{pair.b.name} against {pair.a.name}: {lost} tasks lost, {len(pair.flips) - lost} won"
    rows = [
        [
            flip.task,
            str(flip.seed),
            "lost" if flip.after < flip.before else "won",
            percent(flip.before),
            percent(flip.after),
        ]
        for flip in sorted(pair.flips, key=lambda flip: (flip.after - flip.before, flip.task))
    ]
    return Table(title, ("task", "seed", "flip", pair.a.name, pair.b.name), rows)


def _parting(comparison: Comparison, partings: Partings) -> Iterator[Block]:
    a, b = (side.name for side in comparison.sides[:2])
    parted = len(partings.parted)
    yield (
        f"Of {partings.shared} episodes that both played, {partings.identical} are equal in every turn, "
        f"and {partings.shared - partings.identical} part somewhere"
        + (f"; {partings.read} of these were read." if partings.read < partings.shared - partings.identical else ".")
    )
    broken = sum(parting.what == "environment" for parting in partings.parted)
    if broken:
        yield (
            f"In {broken} of them the environment answered the same actions differently: "
            "it is not deterministic, or not the same."
        )
    if not parted:
        return
    examples = sorted(partings.parted, key=lambda p: (p.won[0] == p.won[1], p.turn, p.task, p.trial))[:EXAMPLES]
    rows: list[list[Value]] = [
        [
            p.task,
            str(p.seed),
            p.trial,
            p.turn + 1,
            p.what,
            _outcome(p.won[0]),
            _outcome(p.won[1]),
            _short(p.ours),
            _short(p.theirs),
        ]
        for p in examples
    ]
    columns = ("task", "seed", "trial", "turn", "what differs", a, b, f"{a} did", f"{b} did")
    yield Table("Episodes that part, flips first", columns, rows)
    yield from (_example(p, a, b) for p in examples)
    counts = partings.turns
    bars = [Series("", [], list(map(float, counts.values())))]
    names = [f"turn {turn + 1}" for turn in counts]
    yield draw_bars("parting", names, bars, title="First turn that differs", x="episodes")


def _example(parting: Parting, a: str, b: str) -> Excerpt:
    where = f"{parting.task}, trial {parting.trial}, turn {parting.turn + 1}"
    title = f"{where}: {_short(parting.ours)} | {_short(parting.theirs)}"
    parts = (("both saw", parting.observation), (f"{a} did", parting.ours), (f"{b} did", parting.theirs))
    return Excerpt(
        title, "\n\n".join(f"{what}:\n{plain(text)[:SHOWN] or '(the episode was over)'}" for what, text in parts)
    )


def _reading(comparison: Comparison) -> Iterator[str]:
    count, alpha = len(comparison.pairs), comparison.alpha
    adjusted = f" It is adjusted over all {count} pairs (Holm); an interval is that of its pair alone." * (count > 1)
    strictest = f", at the level {alpha:g} / {count} that the first of {count} pairs must meet" * (count > 1)
    least = fewest_tasks(level=alpha / max(1, count))
    yield (
        "The p-value decides: of a sign-flip test over tasks, or, where sides have several training runs each, of a "
        f"permutation test over these.{adjusted} The interval says how large the difference may be."
    )
    yield (
        f"Detectable is the smallest true difference that a comparison of this size finds in 80 % of cases{strictest}: "
        f"no difference found is no proof that there is none. Of fewer than {least} tasks the test finds none at all. "
        "A planned episode that was not scored counts as a failure."
    )
    direction = "higher" if HIGHER_IS_BETTER[comparison.metric] else "lower"
    yield f"For {comparison.metric}, {direction} is better."
    yield f"Made with: agentbench compare {' '.join(_paths(comparison))}"


def _paths(comparison: Comparison) -> list[str]:
    return [str(run.path) for side in comparison.sides for run in side.runs]


def _numbers(pair: Pair) -> dict[str, float]:
    return {"delta": pair.delta, "low": pair.low, "high": pair.high, "p_value": pair.p_value, "mde": pair.mde}


def _is_rate(metric: str) -> bool:
    return metric in ("success", "invalid")


def _outcome(won: bool | None) -> str:
    return {True: "won", False: "lost", None: "–"}[won]


def _short(text: str, limit: int = 40) -> str:
    line = " ".join(plain(text).split()) or "(over)"
    return line if len(line) <= limit else line[: limit - 1] + "…"
