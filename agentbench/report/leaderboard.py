"""Leaderboards: rows that anybody can check.

    leaderboards/<env>/rows.jsonl         the source: one row per line, measured here or reported by a paper
    leaderboards/<env>/bundles/           the episodes of each measured row, named by their hash (evaluate/bundle.py)
    leaderboards/<env>/README.md, ...     made from these by `agentbench leaderboard build`

An edited number is found by computing the row again from its bundle, an edited episode by playing it again. How far a
row is to be trusted, and how far not, is what the ladder of report/rows.py says.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import ValidationError

from agentbench.core.errors import IntegrityError, PrerequisiteError, RecordError, UsageError
from agentbench.core.reading import read_bytes
from agentbench.core.records import Planned, RunDirectory, canonical, write_text
from agentbench.core.registry import Resolved
from agentbench.evaluate.bundle import Bundle, Declaration, name_of, own_file
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.evaluate.evidence import Evidence, differences, said
from agentbench.evaluate.replay import Draw, replay, run_difference
from agentbench.report.rows import ROW, Measured, Reported, agreement, row_of

ROOT = Path("leaderboards")
"""Where boards lie in a checkout."""


class Verdict(NamedTuple):
    """What verifying a row, or something else on a board, found."""

    row: str
    difference: str | None
    """None if everything is as it says."""
    replayed: int = 0
    skipped: str | None = None
    """Why its actions were not played again here."""


class Board:
    """The leaderboard of one environment.

    Args:
        path: Its folder.
        rows: What rows.jsonl holds, in order.
    """

    def __init__(self, path: Path, rows: Iterable[Measured | Reported] = ()) -> None:
        self.path = path
        self.rows = list(rows)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a board; one that does not exist yet is empty.

        Raises:
            IntegrityError: A row is damaged.
        """
        file = path / "rows.jsonl"
        content = read_bytes(file) if file.exists() else b""
        rows = []
        # Only a newline ends a row: a name may hold what other line breaks there are (U+2028, U+0085).
        for number, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else [], start=1):
            try:
                rows.append(ROW.validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                raise IntegrityError(f"{file}, line {number}, is no row: {where}: {first['msg']}") from error
        return cls(path, rows)

    @property
    def name(self) -> str:
        """The environment."""
        return self.path.name

    @property
    def measured(self) -> list[Measured]:
        """The rows of ours."""
        return [row for row in self.rows if isinstance(row, Measured)]

    @property
    def reported(self) -> list[Reported]:
        """The rows of papers."""
        return [row for row in self.rows if isinstance(row, Reported)]

    def bundle(self, sha256: str) -> Bundle:
        """Read the bundle with this hash."""
        return Bundle.read(self.path / "bundles", sha256)

    def find(self, identity: str) -> Measured:
        """Return the measured row that an id names.

        Raises:
            UsageError: There is none, or more than one.
        """
        found = [row for row in self.measured if identity and row.bundle.startswith(identity)]
        if len(found) != 1:
            known = ", ".join(row.id for row in self.measured) or "none"
            raise UsageError(f"{self.path} has {len(found)} rows {identity!r}; known: {known}")
        return found[0]

    def write(self) -> None:
        """Write rows.jsonl: measured rows first, sorted so that a new row changes one line."""
        ordered = [*sorted(self.measured, key=lambda row: (row.env, row.split, row.panel, row.name)), *self.reported]
        text = "".join(json.dumps(row.model_dump(mode="json"), ensure_ascii=False) + "\n" for row in ordered)
        write_text(self.path / "rows.jsonl", text)


def boards(root: Path) -> list[Board]:
    """Read every board below a folder."""
    return [Board.read(file.parent) for file in sorted(root.glob("*/rows.jsonl"))]


def add(root: Path, run: RunDirectory, declared: Declaration, *, replace: bool = False) -> Measured:
    """Check a run, pack it, and put its row on the board of its environment.

    Args:
        root: The folder of the boards.
        run: A complete run directory.
        declared: What its people say of it.
        replace: Take the place of a row with the same name and protocol.

    Raises:
        RunInvalid: The run is not complete, or damaged.
        IntegrityError: It does not replay as recorded.
        UsageError: Its environment is a file of the user's, or the board has such a row.
    """
    bundle = _checked(run, declared)
    board = Board.read(_folder(root, bundle.evidence))
    same = [row for row in board.measured if _takes_the_place_of(board, row, bundle)]
    if same and not replace:
        taken = f"{board.path} has a row {declared.name!r} of this panel and sampling already"
        raise UsageError(f"{taken}, {same[0].id}: --replace it, or choose another --name")
    row = row_of(bundle, _store(board, bundle))
    board.rows = [old for old in board.rows if old not in same and old != row] + [row]
    board.write()
    for sha256 in {sha256 for old in same for sha256 in _hashes(old)} - set(_hashes(row)):
        (board.path / "bundles" / name_of(sha256)).unlink(missing_ok=True)
    return row


def add_reproduction(root: Path, run: RunDirectory, identity: str, by: str) -> Measured:
    """Let a second run of the same weights on the same panel bear out a row.

    Args:
        root: The folder of the boards.
        run: The second run.
        identity: The row.
        by: Who ran it.

    Raises:
        IntegrityError: It does not replay, measured another thing, or came out differently.
    """
    bundle = _checked(run, Declaration(name=identity, by=by))
    board = Board.read(_folder(root, bundle.evidence))
    row = board.find(identity)
    first = board.bundle(row.bundle)
    against = _reproduction_difference(first, bundle)
    if against:
        raise IntegrityError(f"{run.path} does not reproduce {identity}: {against}")
    hashes = [*(known.bundle for known in row.reproductions), _store(board, bundle)]
    grown = row_of(first, row.bundle, [(sha256, board.bundle(sha256)) for sha256 in dict.fromkeys(hashes)])
    board.rows = [grown if old == row else old for old in board.rows]
    board.write()
    return grown


def verify(board: Board, rows: Iterable[Measured], *, limit: int | None = None) -> Iterator[Verdict]:
    """Check rows of a board against their bundles, and the bundles against the environment; no model takes part.

    Args:
        board: The board.
        rows: Which of its measured rows.
        limit: Episodes to replay of each bundle; None replays all.
    """
    draw = _remembering()
    for row in rows:
        try:
            yield _verify_row(board, row, limit, draw)
        except IntegrityError as error:
            yield Verdict(row.id, str(error))


def strays(board: Board) -> Iterator[str]:
    """Say what no single row shows: a row that stands twice, and what a deleted row leaves behind."""
    named = [name_of(sha256) for row in board.measured for sha256 in _hashes(row)]
    for name in sorted({name for name in named if named.count(name) > 1}):
        yield f"the bundle {name} stands in two places"
    for path in sorted((board.path / "bundles").glob("*")):
        if path.name not in named:
            yield f"{path} belongs to no row"


def _checked(run: RunDirectory, declared: Declaration) -> Bundle:
    """Pack a run whose record is true as far as that can be seen here."""
    own = own_file(EvalConfig.parse(Evidence.load(run.path).config).model_dump())
    if own:
        raise UsageError(f"{run.path} was played in {own}, which is yours: nobody else could check it")
    false = run_difference(run)
    if false:
        raise IntegrityError(f"{run.path}: {false}")
    bundle = Bundle.pack(run, declared)
    if bundle.head.deterministic:
        for each in replay(run):
            if each.difference:
                raise IntegrityError(f"{run.path}: episode {each.key}: {each.difference}")
    return bundle


def _folder(root: Path, evidence: Evidence) -> Path:
    return root / str(evidence.lock["env"]).partition("/")[0]


def _takes_the_place_of(board: Board, row: Measured, bundle: Bundle) -> bool:
    """Tell whether a row has the name of a bundle and measured the same thing in the same way."""
    ours, theirs = board.bundle(row.bundle).evidence, bundle.evidence
    if row.name != bundle.head.declared.name or ours.lock["sampling"] != theirs.lock["sampling"]:
        return False
    return not any(difference.kind == "match" for difference in differences(ours, theirs))


def _store(board: Board, bundle: Bundle) -> str:
    folder = board.path / "bundles"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot write {folder}: {error.strerror}") from error
    return bundle.write(folder)


def _hashes(row: Measured) -> list[str]:
    return [row.bundle, *(reproduction.bundle for reproduction in row.reproductions)]


SAME_WEIGHTS = ("policy", "weights", "sampling", "tokenizer", "chat_template")
"""What a reproduction must share with its row besides the protocol."""


def _reproduction_difference(first: Bundle, second: Bundle) -> str | None:
    """Say what stands against calling the second run a reproduction of the first."""
    ours, theirs = first.evidence, second.evidence
    refused = [difference for difference in differences(ours, theirs) if difference.kind == "match"]
    if refused:
        return said(refused)
    other = [name for name in SAME_WEIGHTS if canonical(ours.lock.get(name)) != canonical(theirs.lock.get(name))]
    if other:
        return f"it has another {', '.join(other)}"
    if first.episodes == second.episodes and first.head.wall_seconds == second.head.wall_seconds:
        return "it is the same run"
    delta, p_value, _ = agreement(first, second)
    return f"its scores differ by {delta:+.3f} (p = {p_value:.3g})" if p_value < 0.05 else None


def _remembering() -> Draw:
    """Return `plan_tasks` with a memory: the rows of a board are mostly of one panel."""
    drawn: dict[tuple[str, int, int, int], list[Planned]] = {}

    def draw(resolved: Resolved, episodes: int, trials: int, seed: int) -> list[Planned]:
        key = (resolved.digest, episodes, trials, seed)
        if key not in drawn:
            drawn[key] = plan_tasks(resolved, episodes, trials, seed)
        return drawn[key]

    return draw


def _verify_row(board: Board, row: Measured, limit: int | None, draw: Draw) -> Verdict:
    bundle = board.bundle(row.bundle)
    repeated = [(again.bundle, board.bundle(again.bundle)) for again in row.reproductions]
    true = row_of(bundle, row.bundle, repeated).model_dump()
    false = [name for name, value in row.model_dump().items() if canonical(value) != canonical(true[name])]
    if false:
        raise IntegrityError(f"the row says another {', '.join(false)} than its bundle")
    for _, second in repeated:
        against = _reproduction_difference(bundle, second)
        if against:
            raise IntegrityError(f"its reproduction is none: {against}")
    try:
        played = sum(_verify_bundle(each, limit, draw) for each in (bundle, *(second for _, second in repeated)))
    except (UsageError, PrerequisiteError) as error:
        return Verdict(row.id, None, skipped=str(error))
    return Verdict(row.id, None, played)


def _verify_bundle(bundle: Bundle, limit: int | None, draw: Draw) -> int:
    """Play a bundle again; return how many episodes were played."""
    false = bundle.difference(draw)
    if false:
        raise IntegrityError(false)
    played = 0
    for each in bundle.replay(limit=limit) if bundle.head.deterministic else ():
        if each.difference:
            raise IntegrityError(f"episode {each.key}: {each.difference}")
        played += 1
    return played
