"""`agentbench leaderboard`: rows that anybody can check, and the tables made from them."""

from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentbench.cli.console import emit, say, say_table

if TYPE_CHECKING:
    from agentbench.report.leaderboard import Board, Verdict
    from agentbench.report.tables import Table

app = typer.Typer(no_args_is_help=True, help="Rows that anybody can check, and the tables made from them.")

Root = Annotated[Path, typer.Option("--boards", help="Folder of the boards.", envvar="AGENTBENCH_BOARDS")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]
HERE = Path("leaderboards")


@app.command()
def add(
    run: Annotated[Path, typer.Argument(help="A complete run directory of `agentbench eval`.")],
    name: Annotated[str | None, typer.Option(help="What the table calls the model; its policy if absent.")] = None,
    algorithm: Annotated[str, typer.Option(help="What it was trained with.")] = "",
    base: Annotated[str, typer.Option(help="The checkpoint that training began with.")] = "",
    parameters: Annotated[int | None, typer.Option(min=0, help="Number of parameters.")] = None,
    training: Annotated[str, typer.Option(help="What it was trained on: environment, split, recipe.")] = "",
    by: Annotated[str, typer.Option(help="Who measured.")] = "",
    link: Annotated[str, typer.Option(help="Where to read more.")] = "",
    reproduces: Annotated[str | None, typer.Option(help="Row that this run bears out; it becomes no row.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of the row with this name.")] = False,
    boards: Root = HERE,
    json: Json = False,
) -> None:
    """Check a run by playing it again, pack its episodes, and put its row on a board."""
    from agentbench.core.records import RunDirectory
    from agentbench.evaluate.bundle import Declaration
    from agentbench.evaluate.evidence import Evidence
    from agentbench.report.boards import build
    from agentbench.report.leaderboard import add as add_row
    from agentbench.report.leaderboard import add_reproduction

    directory = RunDirectory.open(run)
    if reproduces is not None:
        row = add_reproduction(boards, directory, reproduces, by)
    else:
        declared = Declaration(
            name=name or Evidence.load(run).name,
            algorithm=algorithm,
            base=base,
            training=training,
            by=by,
            link=link,
            parameters=parameters,
        )
        row = add_row(boards, directory, declared, replace=replace)
    written = build(boards)
    if json:
        emit(event="added", id=row.id, row=row.model_dump(mode="json"), written=[str(path) for path in written])
    say(f"row {row.id}: {row.name} on {row.env}:{row.split}, {row.trust}; {len(written)} files were written again")


@app.command()
def build(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; end with 7 if something is stale.")] = False,
    boards: Root = HERE,
    json: Json = False,
) -> None:
    """Write the tables and pages again that are older than their rows."""
    from agentbench.core.errors import IntegrityError
    from agentbench.report.boards import build as write
    from agentbench.report.boards import stale_files

    _require(boards)
    stale = list(stale_files(boards)) if check else write(boards)
    if json:
        emit(event="done", stale=[str(path) for path in stale], written=not check)
    if check and stale:
        raise IntegrityError(f"not what the rows say: {_named(stale)}; write them with: agentbench leaderboard build")
    say(f"{len(stale)} files were written" if stale else "every file is fresh")


@app.command()
def verify(
    rows: Annotated[list[str] | None, typer.Argument(help="Rows to check; all if absent.")] = None,
    env: Annotated[str | None, typer.Option("--env", "-e", help="Only the board of this environment.")] = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", min=1, help="Episodes of each row to play again; all if absent.")
    ] = None,
    boards: Root = HERE,
    json: Json = False,
) -> None:
    """Compute rows again from their episodes, and play the episodes again; no model, no GPU."""
    from agentbench.core.errors import IntegrityError, PrerequisiteError
    from agentbench.report.leaderboard import verify as check

    wanted = set(rows or [])
    found: list[Verdict] = []
    for board in _boards(boards, env):
        chosen = [row for row in board.measured if not wanted or wanted & {row.id, row.bundle}]
        wanted -= {name for row in chosen for name in (row.id, row.bundle)}
        for verdict in check(board, chosen, limit=episodes):
            found.append(verdict)
            _tell(verdict, board, json=json)
    _refuse_unknown(wanted)
    found += [] if rows or env else _leftovers(boards, json=json)
    different = [verdict for verdict in found if verdict.difference]
    skipped = [verdict for verdict in found if verdict.skipped]
    played = sum(verdict.replayed for verdict in found)
    if json:
        emit(event="done", rows=len(found), replayed=played, different=len(different), skipped=len(skipped))
    if different:
        first = different[0]
        raise IntegrityError(f"{len(different)} of {len(found)} are not what they say: {first.row}: {first.difference}")
    if skipped:
        raise PrerequisiteError(f"{len(skipped)} rows could not be played again here: {skipped[0].skipped}")
    say(f"{len(found)} rows are what they say; {played} episodes were played again")


@app.command()
def show(
    env: Annotated[str | None, typer.Argument(help="Environment; all if absent.")] = None,
    boards: Root = HERE,
    json: Json = False,
) -> None:
    """Show the boards in the terminal."""
    from agentbench.report.boards import as_json, reported_of, table_of
    from agentbench.report.standing import standings

    for board in _boards(boards, env):
        placed = standings(board)
        if json:
            emit(event="board", **loads(as_json(board, placed)))
            continue
        for standing in placed:
            _draw(table_of(standing), NARROW)
        if board.reported:
            _draw(reported_of(board), ("Model", "Algorithm", "Environment", "Metric", "Score"))


NARROW = (
    "Rank",
    "Model",
    "Sampling",
    "Score ± 95 %",
    "Normalised",
    "pass^4",
    "Turns",
    "Tokens / episode",
    "Trust",
    "Row",
)
"""Columns that a terminal has room for."""


def _draw(table: "Table", columns: tuple[str, ...]) -> None:
    """Draw some columns of a table."""
    from agentbench.report.tables import as_cell

    kept = [table.columns.index(column) for column in columns]
    say_table(table.title, columns, [[as_cell(row[number]).text for number in kept] for row in table.rows])


def _boards(root: Path, env: str | None) -> "list[Board]":
    from agentbench.core.errors import UsageError
    from agentbench.report.leaderboard import boards

    _require(root)
    every = boards(root)
    chosen = [board for board in every if env is None or board.name == env.partition("/")[0]]
    if not chosen:
        raise UsageError(f"{root} has no board {env!r}; known: {', '.join(board.name for board in every) or 'none'}")
    return chosen


def _require(root: Path) -> None:
    from agentbench.core.errors import UsageError

    if not any(root.glob("*/rows.jsonl")):
        raise UsageError(f"there is no board below {root}; name their folder with --boards, or begin one with: add RUN")


def _refuse_unknown(wanted: set[str]) -> None:
    from agentbench.core.errors import UsageError

    if wanted:
        raise UsageError(
            f"no board has a row {min(wanted)!r}; `agentbench leaderboard show` lists them in its last column"
        )


def _leftovers(root: Path, *, json: bool) -> "list[Verdict]":
    """Check what no single row can show: bundles without a row, rows that stand twice, and stale tables."""
    from agentbench.core.errors import IntegrityError
    from agentbench.report.boards import stale_files
    from agentbench.report.leaderboard import Verdict, boards, strays

    found = []
    for board in boards(root):
        found += [(Verdict(str(board.path), difference), board) for difference in strays(board)]
    try:
        stale = list(stale_files(root))
    except IntegrityError:
        stale = []  # A row or a bundle is damaged, which was told already.
    if stale:
        said = f"not what the rows say: {_named(stale)}; write them with: agentbench leaderboard build"
        found.append((Verdict(str(root), said), board))
    for verdict, board in found:
        _tell(verdict, board, json=json)
    return [verdict for verdict, _ in found]


def _tell(verdict: "Verdict", board: "Board", *, json: bool) -> None:
    if json:
        emit(event="verified", board=board.name, **verdict._asdict())
    elif verdict.difference or verdict.skipped:
        say(f"{verdict.row}: {verdict.difference or verdict.skipped}")


def _named(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)
