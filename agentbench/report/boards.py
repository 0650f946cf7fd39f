"""The files that are made from a leaderboard's rows: Markdown, CSV, JSON, and a page that sorts.

    leaderboards/README.md                      the list of boards, in its generated block
    leaderboards/<env>/README.md                what people read where the repository is shown
    leaderboards/<env>/leaderboard.{csv,json}   the same for programs
    leaderboards/<env>/leaderboard.html         the same, to sort and look at

Equal rows give equal files. A test, and `agentbench leaderboard verify`, fail while one of them is stale.
"""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentbench.core.records import write_text
from agentbench.evaluate.compare import Pair
from agentbench.report import tables
from agentbench.report.leaderboard import Board, boards
from agentbench.report.page import Section, document, figure, grid, note, paragraph, show_table
from agentbench.report.plots import Point, forest, scatter
from agentbench.report.rows import LADDER, Measured
from agentbench.report.standing import Place, Standing, standings
from agentbench.report.tables import Cell, Table, interval, markdown, number, percent, seconds

if TYPE_CHECKING:
    from markupsafe import Markup

COLUMNS = (
    *(
        "Rank",
        "Model",
        "Sampling",
        "Score ± 95 %",
        "Normalised",
        "Trust",
        "pass@1",
        "pass^4",
        "Tasks × trials",
        "Turns",
    ),
    *("Invalid", "Tokens / episode", "Time / success", "Coverage", "Reward", "Algorithm", "Base", "Params", "Agent"),
    *("Date", "Row"),
)
MADE = "<!-- Made from rows.jsonl by `agentbench leaderboard build`; change the rows, not this file. -->"
OPENING, CLOSING = "<!-- generated:boards -->", "<!-- end -->"


def documents(root: Path) -> dict[Path, str]:
    """Return what each generated file below a folder of boards should hold.

    Raises:
        IntegrityError: A row or a bundle is damaged.
    """
    files: dict[Path, str] = {}
    every = boards(root)
    for board in every:
        placed = standings(board)
        files |= {
            board.path / "README.md": readme(board, placed),
            board.path / "leaderboard.csv": as_csv(placed),
            board.path / "leaderboard.json": as_json(board, placed),
            board.path / "leaderboard.html": as_page(board, placed),
        }
    index = root / "README.md"
    if index.is_file():
        files[index] = _fill(index.read_text(encoding="utf-8", errors="replace"), _index(every))
    return files


def build(root: Path) -> list[Path]:
    """Write every generated file that is stale, and return those."""
    stale = stale_files(root)
    for path, text in stale.items():
        write_text(path, text)
    return list(stale)


def stale_files(root: Path) -> dict[Path, str]:
    """Return the generated files that do not hold what they should, and what they should hold."""
    return {
        path: text for path, text in documents(root).items() if not path.is_file() or path.read_bytes() != text.encode()
    }


def readme(board: Board, placed: Sequence[Standing]) -> str:
    """Return a board as Markdown."""
    parts = [
        f"# Leaderboard: {board.name}\n\n{MADE}\n\n"
        "The same to sort and look at: [leaderboard.html](leaderboard.html); for programs: "
        "[leaderboard.csv](leaderboard.csv), [leaderboard.json](leaderboard.json). How a row is made and checked: "
        "[leaderboards](../README.md).\n"
    ]
    for standing in placed:
        parts.append(
            f"\n## {standing.title}\n\n{_facts(standing)}\n\n{markdown(table_of(standing))}\n{_ranks(standing)}\n"
        )
        if standing.comparison:
            parts.append(f"\n### Every pair\n\n{markdown(pairs_of(standing))}")
        parts.append(f"\n### To run a row again\n\n{markdown(commands_of(standing))}")
    if not placed:
        parts.append("\nNo row of ours yet.\n")
    if board.reported:
        parts.append(f"\n## Reported by others\n\n{REPORTED}\n\n{markdown(reported_of(board))}")
    parts.append(f"\n## What trust means\n\n{markdown(ladder())}")
    return "".join(parts)


def as_page(board: Board, placed: Sequence[Standing]) -> str:
    """Return a board as a page."""
    sections = [Section(standing.title, _parts(standing), standing.env) for standing in placed]
    if board.reported:
        sections.append(
            Section("Reported by others", [paragraph(REPORTED), show_table(reported_of(board))], "Reported")
        )
    sections.append(Section("What trust means", [show_table(ladder())], "Trust"))
    lead = (
        "Ranked only against rows of the same tasks, turn cap and prompt format; ties where the data show none better."
    )
    return document(f"Leaderboard: {board.name}", sections, lead=lead)


REPORTED = (
    "Numbers of papers and repositories, each with its source. They were not checked here, their tasks, prompts and "
    "turn caps differ from ours and from each other's, and they are ranked with nothing."
)


def as_csv(placed: Sequence[Standing]) -> str:
    """Return the measured rows as CSV, one line each."""
    file = io.StringIO()
    names = [name for name in Measured.model_fields if name not in ("kind", "reproductions")]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["standing", "rank_best", "rank_worst", "normalised", "frontier", *names, "reproductions"])
    for standing in placed:
        for place in standing.places:
            row = place.row.model_dump()
            own = [standing.title, place.best, place.worst, _six(place.normalised), place.frontier]
            cells = [*own, *(row[name] for name in names), len(place.row.reproductions)]
            writer.writerow([_harmless(cell) for cell in cells])
    return file.getvalue()


def as_json(board: Board, placed: Sequence[Standing]) -> str:
    """Return a board as JSON."""
    value = {
        "board": board.name,
        "standings": [
            {
                "title": standing.title,
                "env": standing.env,
                "split": standing.split,
                "panel": standing.panel,
                "max_turns": standing.max_turns,
                "agent": standing.agent,
                "places": [_place(place) for place in standing.places],
                "pairs": [_pair(pair) for pair in standing.comparison.pairs] if standing.comparison else [],
            }
            for standing in placed
        ],
        "reported": [row.model_dump(mode="json") for row in board.reported],
        "ladder": [step._asdict() for step in LADDER],
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def table_of(standing: Standing) -> Table:
    """Return a standing as a table."""
    return Table(f"Ranks and scores: {standing.title}", COLUMNS, [_cells(place) for place in standing.places])


def pairs_of(standing: Standing) -> Table:
    """Return the paired tests behind the ranks."""
    labels = {place.row.bundle: label(place.row) for place in standing.places}
    unit = " in points" if standing.places[0].row.metric == "success" else ""
    columns = ("A", "B", f"B − A{unit} [95 %]", "p (Holm)", f"80 % power would show{unit}", "Verdict")
    comparison = standing.comparison
    if comparison is None:
        return Table(f"Paired tests: {standing.title}", columns, [])
    scale, digits = (100, 1) if unit else (1, 3)
    rows: list[list[tables.Value]] = [
        [
            labels[pair.a.name],
            labels[pair.b.name],
            _scaled(pair, scale, digits),
            Cell("< 0.001", pair.p_value) if pair.p_value < 0.001 else number(pair.p_value, 3),
            number(scale * pair.mde, digits),
            _verdict(pair.verdict(comparison.alpha)),
        ]
        for pair in comparison.pairs
    ]
    return Table(f"Paired tests: {standing.title}", columns, rows)


def _scaled(pair: Pair, scale: int, digits: int) -> Cell:
    mean, low, high = (number(scale * value, digits).text for value in (pair.delta, pair.low, pair.high))
    return Cell(f"{mean} [{low}, {high}]", pair.delta)


def _verdict(word: str) -> str:
    return f"B is {word}" if word in ("better", "worse") else word


def commands_of(standing: Standing) -> Table:
    """Return what each row was made with."""
    columns = ("Row", "Model", "Command", "By", "Commit", "Hardware", "Weights", "Bundle (sha256)")
    rows = [
        [
            row.id,
            label(row),
            row.command,
            row.by or "–",
            row.commit,
            row.hardware,
            (row.weights or "–")[:16],
            row.bundle,
        ]
        for row in (place.row for place in standing.places)
    ]
    return Table(f"What each row was made with: {standing.title}", columns, rows)


def reported_of(board: Board) -> Table:
    """Return the numbers of others as a table, in the order of the file."""
    columns = ("Model", "Algorithm", "Environment", "Metric", "Score", "Protocol", "Caveat", "Source")
    return Table(
        "Reported by others, not ranked",
        columns,
        [
            [
                *(row.name, row.algorithm, row.env, row.metric),
                Cell("collapsed" if row.score is None else f"{row.score:g}{row.unit}"),
                *(row.protocol, row.caveat, f"{row.source.title}, {row.source.place}: {row.source.link}"),
            ]
            for row in board.reported
        ],
    )


def ladder() -> Table:
    """Return the trust ladder as a table."""
    return Table(
        "The trust ladder",
        ("Trust", "What was checked", "What that proves", "What it does not"),
        [[step.trust, step.checked, step.proves, step.does_not] for step in LADDER],
    )


def label(row: Measured) -> str:
    """Return what tells a row from its neighbours."""
    return row.name if row.role != "model" else f"{row.name}, {row.sampling.partition(',')[0]}"


def _cells(place: Place) -> list[tables.Value]:
    row = place.row
    rate = row.metric == "success"
    return [
        Cell(f"{place.rank}{' ◆' * place.frontier}"),
        row.name,
        row.sampling,
        interval(row.score, row.low, row.high, rate=rate),
        number(place.normalised, 3),
        row.trust,
        percent(row.pass_at_1),
        percent(row.pass_hat_4),
        Cell(f"{row.tasks} × {row.trials}", row.tasks * row.trials),
        number(row.turns),
        percent(row.invalid),
        number(row.tokens, 1),
        seconds(row.seconds_per_success),
        percent(row.coverage),
        number(row.reward),
        row.algorithm or "–",
        row.base or "–",
        _count(row.parameters),
        row.agent if row.role == "model" else "–",
        row.date,
        row.id,
    ]


def _parts(standing: Standing) -> "list[Markup]":
    """The parts of a standing's section."""
    places, rate = standing.places, standing.places[0].row.metric == "success"
    unit = "success, strict, with its 95 % interval" if rate else "mean reward with its 95 % interval"
    points = [
        Point(label(row), row.score, row.low, row.high, row.role == "model", row.tokens)
        for row in (place.row for place in places)
    ]
    said = "; ".join(f"{point.label} {_score(point.value, rate=rate)}" for point in points)
    drawn = [
        figure(
            forest(points, unit=unit, rate=rate), "Filled: models. Hollow: ceiling and floors.", alt=f"Scores: {said}"
        )
    ]
    paid = [point for point in points if point.strong and point.cost > 0]
    if len(paid) > 1:
        costs = "; ".join(f"{p.label} {_score(p.value, rate=rate)} at {p.cost:.1f} tokens" for p in paid)
        svg = scatter(paid, unit="success" if rate else "mean reward", cost="tokens sampled per episode", rate=rate)
        caption = "Score over cost: further up and further left is better."
        drawn.append(figure(svg, caption, alt=f"Scores and costs: {costs}"))
    pairs = [show_table(pairs_of(standing))] if standing.comparison else []
    ranked = [paragraph(_facts(standing)), show_table(table_of(standing)), note(_ranks(standing))]
    return [*ranked, grid(drawn), *pairs, show_table(commands_of(standing))]


def _facts(standing: Standing) -> str:
    first = standing.places[0].row
    return (
        f"{first.tasks} tasks of the {standing.split} split, at most {standing.max_turns} turns. "
        f"Panel {standing.panel[:16]}: a hash of environment, arguments and tasks."
    )


def _ranks(standing: Standing) -> str:
    tests = len(standing.comparison.pairs) if standing.comparison else 0
    held = f"Ranks come from {tests} paired sign-flip tests over tasks at 5 % (Holm); " if tests else ""
    return (
        f"{held}1–4 says that a row may be first and may be fourth. Normalised: 0 is the better floor (random, nop), "
        "1 the ceiling (oracle). Score: strict, an episode that was not scored counts as a failure. ◆: no other model "
        "scores as well with fewer tokens. Time: wall time of the run per solved episode, on the hardware named below."
    )


def _score(value: float, *, rate: bool) -> str:
    return f"{100 * value:.1f} %" if rate else f"{value:.2f}"


def _count(parameters: int | None) -> Cell:
    if parameters is None:
        return Cell("–")
    size, unit = next(
        (s, u) for s, u in ((10**9, "B"), (10**6, "M"), (10**3, "k"), (1, "")) if parameters >= s or s == 1
    )
    return Cell(f"{parameters / size:.3g}{unit}", parameters)


def _place(place: Place) -> dict[str, Any]:
    standing = {"rank": [place.best, place.worst], "normalised": _six(place.normalised), "frontier": place.frontier}
    return {"id": place.row.id, **standing, **place.row.model_dump(mode="json", exclude={"kind"})}


def _pair(pair: Pair) -> dict[str, Any]:
    numbers = {name: _six(getattr(pair, name)) for name in ("delta", "low", "high", "p_value", "mde", "improvement")}
    return {"a": pair.a.name[:8], "b": pair.b.name[:8], **numbers, "n": pair.n, "flips": len(pair.flips)}


def _six(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _harmless(cell: Any) -> Any:
    """A text that a spreadsheet would take for a formula is shown as text."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _index(every: Sequence[Board]) -> str:
    lines = ["| board | rows of ours | reported by others |", "| --- | ---: | ---: |"]
    lines += [f"| [{b.name}]({b.name}/README.md) | {len(b.measured)} | {len(b.reported)} |" for b in every]
    return "".join(f"{line}\n" for line in lines)


def _fill(text: str, block: str) -> str:
    before, _, rest = text.partition(OPENING)
    return f"{before}{OPENING}\n{block}{CLOSING}{rest.partition(CLOSING)[2]}" if rest else text
