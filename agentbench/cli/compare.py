"""`agentbench compare`: which of several runs is better, and how sure that is."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from agentbench.core.errors import UsageError

if TYPE_CHECKING:
    from agentbench.evaluate.compare import Comparison, Side
    from agentbench.evaluate.evidence import Evidence, Metric
    from agentbench.report.chapters import Chapter
    from agentbench.report.tables import Table


class Named(NamedTuple):
    """A run as it was written on the command line."""

    name: str | None
    path: Path


def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run directories; NAME=RUN names and groups them.")
    ],
    metric: Annotated[str, typer.Option("--metric", help="success, reward, turns, tokens or invalid.")] = "success",
    alpha: Annotated[float, typer.Option("--alpha", help="How often chance alone may show a difference.")] = 0.05,
    out: Annotated[
        list[Path] | None, typer.Option("--out", "-o", help="File to write: .html, .md or .json; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Say which of several runs is better, and how sure that is."""
    files = _checked(out or [])
    if not 0 < 1 - alpha < 1:
        raise UsageError(f"--alpha takes a probability, got {alpha}")
    named = [_named(run) for run in runs]
    if len({(run.name, run.path.resolve()) for run in named if run.name}) < sum(bool(run.name) for run in named):
        raise UsageError("a run stands twice under one name: it would count twice")
    if len(named) < 2:
        raise UsageError("a comparison needs two runs: agentbench compare RUN RUN")
    if any(_is_training(run.path) for run in named):
        _training(named, alpha, files, json=json)
    else:
        _evaluations(named, metric, alpha, files, json=json)


def _named(text: str) -> Named:
    """Read `NAME=RUN`, or a path."""
    name, equals, path = text.partition("=")
    return Named(name, Path(path)) if equals and name and not Path(text).exists() else Named(None, Path(text))


def _is_training(path: Path) -> bool:
    from agentbench.core.errors import IntegrityError, RunInvalid
    from agentbench.core.records import RunDirectory

    try:
        return RunDirectory.open(path).state.get("kind") == "train"
    except IntegrityError as error:
        raise RunInvalid(f"{path} is damaged and proves nothing: {error}") from error


def _checked(files: Sequence[Path]) -> Sequence[Path]:
    for file in files:
        if file.suffix not in (".html", ".md", ".json"):
            raise UsageError(f"-o takes a file that ends with .html, .md or .json, got {file}")
    return files


def _evaluations(named: Sequence[Named], metric: str, alpha: float, files: Sequence[Path], *, json: bool) -> None:
    from agentbench.evaluate.compare import compare as compare_sides
    from agentbench.evaluate.evidence import METRICS, Evidence
    from agentbench.evaluate.parting import part
    from agentbench.report.compare import (
        chapters,
        costs_table,
        covered_record,
        pairs_table,
        record,
        sentence,
        tokens_per_success,
    )

    wanted: Metric | None = next((known for known in METRICS if known == metric), None)
    if wanted is None:
        raise UsageError(f"no metric {metric!r}; known: {', '.join(METRICS)}")
    sides = _sides([(run.name, Evidence.load(run.path)) for run in named])
    comparison = compare_sides(sides, metric=wanted, alpha=alpha)
    single = len(comparison.sides) == 2 and all(len(side.runs) == 1 for side in comparison.sides)
    partings = part(*(side.runs[0] for side in comparison.sides)) if single else None
    records = [record(comparison, side.name) for side in sides[1:]]
    title = f"{' and '.join(side.name for side in sides)} on {sides[0].runs[0].env}"
    costs = {side.name: tokens_per_success(side) for side in comparison.sides}
    for one in records:
        one["tokens_per_success"] = {key: covered_record(costs.get(str(one.get(key)))) for key in ("a", "b")}
    tables = [pairs_table(comparison), costs_table(costs)]
    if partings is not None:
        compared = next(record for record in records if record["b"] == comparison.sides[1].name)
        compared |= {"identical": partings.identical, "parted_at": {str(k): n for k, n in partings.turns.items()}}
    lines = [sentence(comparison, pair) for pair in comparison.against_first()]
    if partings is not None:
        different = partings.shared - partings.identical
        lines.append(f"{partings.identical} of {partings.shared} episodes are equal in every turn, {different} part")
    _say(lines, comparison, tables)
    lead = f"Evaluations of one panel, compared by {metric}, paired by task."
    _write(files, title, lead, list(chapters(comparison, partings, costs)) if files else [], records)
    _finish(records, json=json)
    if len(comparison.sides) == 1:
        raise UsageError(f"the runs are not comparable: {_fields(comparison)}")


def _sides(loaded: "Sequence[tuple[str | None, Evidence]]") -> "list[Side]":
    """Group runs that are named alike; a run without a name is a side of its own, called by its policy."""
    from agentbench.evaluate.compare import Side

    grouped: dict[str, list[Evidence]] = defaultdict(list)
    for name, run in loaded:
        if name:
            grouped[name].append(run)
    alone = iter(_own_names([run for name, run in loaded if not name], set(grouped)))
    called = [name or next(alone) for name, _ in loaded]
    sides = {name: [run] for name, (_, run) in zip(called, loaded, strict=True)} | grouped
    return [Side(name, tuple(runs)) for name, runs in sides.items()]


def _own_names(runs: "Sequence[Evidence]", taken: set[str]) -> list[str]:
    """Call each run by its policy; where that is not its own, add the id of its directory, its path, or a number."""
    names = [run.name for run in runs]
    paths = [run.path for run in runs]
    ids = [path.resolve().name.rpartition("--")[2].rpartition("-")[2] for path in paths]
    for more in (ids, list(map(str, paths)), list(map(str, range(1, len(runs) + 1)))):
        shared = [name in taken or names.count(name) > 1 for name in names]
        names = [
            f"{run.name} ({tell})" if again else name
            for run, name, tell, again in zip(runs, names, more, shared, strict=True)
        ]
    return names


def _training(named: Sequence[Named], alpha: float, files: Sequence[Path], *, json: bool) -> None:
    from agentbench.report.algorithms import (
        algorithm_chapters,
        compare_algorithms,
        doubts,
        group_algorithms,
        pairs_table,
        ranking,
        record_algorithm,
        require_same,
        summaries_table,
    )
    from agentbench.report.runs import Training, read_runs

    found = read_runs([run.path for run in named])
    trained = [run for run in found if isinstance(run, Training)]
    if len(trained) < len(found):
        _finish([_not_comparable(str(run.path)) for run in named[1:]], json=json)
        raise UsageError("evaluations and training runs cannot be compared with each other")
    algorithms = group_algorithms([(run.name, one) for run, one in zip(named, trained, strict=True)])
    pairs = compare_algorithms(algorithms, alpha)
    against = [pair for pair in pairs if pair.a is algorithms[0]]
    try:
        require_same(algorithms)
    except UsageError:
        _finish([_not_comparable(pair.b.name) for pair in against], json=json)
        raise
    records = [record_algorithm(pair, alpha) for pair in against]
    tables = [pairs_table(against, alpha), ranking(algorithms, pairs, alpha), summaries_table(algorithms)]
    _say(doubts(algorithms), None, tables)
    title = f"{' and '.join(one.name for one in algorithms)} on {trained[0].env}"
    lead = f"{len(trained)} training runs, compared by success on the valid panel after the last update."
    _write(files, title, lead, list(algorithm_chapters(algorithms, pairs, alpha)) if files else [], records)
    _finish(records, json=json)


def _not_comparable(name: str) -> dict[str, object]:
    return {"verdict": "not comparable", **dict.fromkeys(("delta", "low", "high", "p_value", "mde")), "b": name}


def _say(lines: Iterable[str], comparison: "Comparison | None", tables: "Sequence[Table]") -> None:
    from agentbench.cli.console import say, say_table
    from agentbench.evaluate.evidence import said
    from agentbench.report.tables import as_cell

    for line in lines:
        say(line)
    for table in tables:
        if table.rows:
            say_table(table.title, table.columns, [[as_cell(value).text for value in row] for row in table.rows])
    if comparison is None:
        return
    for pair in comparison.against_first():
        if pair.marks:
            say(f"not the same in {pair.a.name} and {pair.b.name}: {said(pair.marks)}")
    for name, fields in comparison.refused.items():
        say(f"{name} is not comparable: {said(fields)}")


def _write(
    files: Sequence[Path], title: str, lead: str, chapters: "Sequence[Chapter]", records: Sequence[object]
) -> None:
    import json as encoder

    from agentbench.cli.console import say
    from agentbench.core.records import write_text
    from agentbench.report.chapters import write_markdown, write_page

    for file in files:
        if file.suffix == ".html":
            write_page(file, title, lead, chapters)
        elif file.suffix == ".md":
            write_markdown(file, title, lead, chapters)
        else:
            write_text(file, encoder.dumps(records, indent=2) + "\n")
        say(f"written: {file}")


def _finish(records: "Sequence[dict[str, object]]", *, json: bool) -> None:
    """Write one line per side; the last one is what the last side is against the first."""
    from agentbench.cli.console import emit

    for number, record in enumerate(records, start=1):
        if json:
            emit(event="done" if number == len(records) else "compared", **record)


def _fields(comparison: "Comparison") -> str:
    from agentbench.evaluate.evidence import said

    return "; ".join(said(fields) for fields in comparison.refused.values())
