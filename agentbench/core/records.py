"""The run directory: what was planned, what happened, and how to go on after a crash.

    run.json                     status and summary, rewritten atomically
    config.toml                  what to run again with `agentbench eval --config`
    lock.json                    what else may change a result
    plan.jsonl                   every planned episode, written first: the denominator
    episodes.jsonl               one row per attempt, appended and fsynced as it ends
    trajectories/NNNN.jsonl.gz   one shard per process start; each episode is a gzip member of its own

An attempt counts once its row is on disk, and its trajectory is on disk before its row: a process killed at any
moment leaves every finished episode readable and at most one torn line, which is ignored. A run goes on from *plan
minus scored rows*. The turn hashes form a chain that finds corruption; `agentbench replay` finds false rewards.
Neither proves that a model produced the actions.
"""

import fcntl
import gzip
import hashlib
import json
import os
import re
import secrets
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal, Self, get_args

from agentbench.core.errors import IntegrityError, RecordError, UsageError
from agentbench.core.reading import Shape, parse_json, read_bytes, read_json, unpack
from agentbench.core.rows import require_row, row_of
from agentbench.core.types import Reply, Trajectory, Turn

Row = dict[str, Any]
Status = Literal["started", "complete", "invalid", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)


class Recorded(Row):
    """A JSON object that was read from a run; what it should say and does not is damage, wherever it is missed."""

    def __init__(self, place: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise IntegrityError(f"{place} is no JSON object")
        super().__init__(value)
        self._place = place

    def __missing__(self, key: str) -> Any:
        raise IntegrityError(f"{self._place} lacks {key!r}")


@dataclass(frozen=True, slots=True)
class Planned:
    """One planned episode."""

    key: str
    """sha256 over environment, version, arguments, task and trial, shortened: equal keys are equal plans."""
    task: str
    """sha256 over environment, version, arguments and seed, shortened: equal tasks, equal episodes to play."""
    seed: int
    trial: int


def digest(*parts: Any) -> str:
    """Return the sha256 of the parts' canonical JSON, in hex."""
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)


def turn_hash(
    previous: str, observation: str, action: str, reward: float, terms: Mapping[str, float], end: str | None
) -> str:
    """Return the next link of an episode's hash chain; no times and no images take part.

    Args:
        previous: The hash of the turn before, empty for the first.
        observation: What the policy was shown.
        action: What was sent to the environment.
        reward: What it answered.
        terms: The raw components of the reward.
        end: `terminated` or `truncated` if the environment ended the episode here.
    """
    link = json.dumps([previous, observation, action, reward, sorted(terms.items()), end])
    return hashlib.sha256(link.encode()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically: readers see the old or the new one, also after a crash."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with _writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def read_lines(path: Path) -> Iterator[Row]:
    """Yield the rows of a JSON-lines file; what stands after the last line's end is torn, and no row.

    Raises:
        IntegrityError: The file cannot be read, or a line is no JSON object.
    """
    if not path.exists():
        return
    for number, line in enumerate(read_bytes(path).split(b"\n")[:-1], start=1):
        place = f"{path}, line {number},"
        yield Recorded(place, parse_json(f"{place} is no JSON", line))


def scored_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, Row]:
    """Return the row that counts for each episode that has one, by key: its first scored attempt."""
    scored: dict[str, Row] = {}
    for row in rows:
        if row["scored"]:
            scored.setdefault(row["key"], dict(row))
    return scored


def require_equal(run: Path, what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a run under other settings.

    Raises:
        UsageError: Some differ; the message names each with both values.
    """
    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if changed:
        said = "; ".join(f"{key} was {before.get(key)!r}, is {now.get(key)!r}" for key in changed)
        raise UsageError(f"{run} cannot be resumed with another {what}: {said}")


class RunDirectory:
    """One run on disk. `create` starts one, `open` reads one, `writing` appends to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, parent: Path, env: str, policy: str) -> Self:
        """Make a new run directory below `parent`, named after environment, policy, time and a random id."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        name = f"{_slug(env)}--{_slug(policy)}--{stamp}-{secrets.token_hex(4)}"
        path = parent / name
        with _writing(path):
            (path / "trajectories").mkdir(parents=True)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read an existing run.

        Raises:
            UsageError: There is no run at this path.
        """
        if not (path / "run.json").is_file():
            raise UsageError(f"{path} is no run directory: it has no run.json")
        return cls(path)

    @property
    def state(self) -> Row:
        """The contents of run.json."""
        state = self._json("run.json")
        wrong = [name for name in ("config", "summary", "files") if not isinstance(state.get(name, {}), dict)]
        if wrong or state.get("status", "started") not in STATUSES:
            raise IntegrityError(f"{self.path / 'run.json'} has no {(*wrong, 'status')[0]} that could be true")
        return state

    @property
    def lock(self) -> Row:
        """The contents of lock.json."""
        return self._json("lock.json")

    def plan(self) -> list[Planned]:
        """The planned episodes, in order."""
        path, plan = self.path / "plan.jsonl", []
        for number, row in enumerate(read_lines(path), start=1):
            misfit = Shape.of(Planned).misfit(row)
            if misfit:
                raise IntegrityError(f"{path}, line {number}, {misfit}")
            plan.append(Planned(**row))
        return plan

    def rows(self) -> list[Row]:
        """One row per attempt, in the order in which they ended."""
        path = self.path / "episodes.jsonl"
        rows = list(read_lines(path))
        for number, row in enumerate(rows, start=1):
            require_row(f"{path}, line {number},", row)
        return rows

    def scored(self) -> dict[str, Row]:
        """The scored row of each planned episode that has one, by key."""
        return scored_rows(self.rows())

    def trajectory(self, row: Row) -> Trajectory:
        """Read the trajectory that a row points at.

        Raises:
            IntegrityError: It is missing, damaged, or its hash chain does not hold.
        """
        place = f"{self.path}: the trajectory of {row['key']}"
        try:
            with (self.path / "trajectories" / row["shard"]).open("rb") as shard:
                shard.seek(row["offset"])
                # A row that claims more than there is must not make room for it.
                packed = shard.read(min(row["length"], os.fstat(shard.fileno()).st_size))
            text = unpack(packed).decode()
        except (OSError, zlib.error, ValueError) as error:
            raise IntegrityError(f"{place} cannot be read: {error}") from error
        head, *turns = (parse_json(f"{place} cannot be read", line) for line in text.split("\n")[:-1] or [""])
        misfit = _misfit(head, turns)
        if misfit:
            raise IntegrityError(f"{place} {misfit}")
        trajectory = Trajectory(**head, turns=[_turn(turn) for turn in turns])
        _verify(trajectory, row)
        return trajectory

    def fingerprints(self) -> dict[str, str]:
        """Return the sha256 of every file that the numbers of the run rest on, by its path below the run."""
        files = [self.path / name for name in ("config.toml", "lock.json", "plan.jsonl", "episodes.jsonl")]
        files += sorted((self.path / "trajectories").glob("*.jsonl.gz"))
        return {
            file.relative_to(self.path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
            if file.is_file()
        }

    def writing(self) -> "RunWriter":
        """Open the run for appending; one process at a time may."""
        return RunWriter(self)

    def _json(self, name: str) -> Row:
        return Recorded(str(self.path / name), read_json(self.path / name))


class RunWriter:
    """The writing side of a run: a context manager that holds the directory for one process."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._guard: IO[bytes] | None = None
        self._rows: IO[bytes] | None = None
        self._shard: IO[bytes] | None = None

    def __enter__(self) -> Self:
        with _writing(self.run.path):
            self._guard = (self.run.path / ".writing").open("ab")
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._guard.close()
            raise UsageError(f"{self.run.path} is being written by another process") from None
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._rows, self._shard, self._guard):
            # Closing writes again what a full disk refused in `append`, which has raised already.
            with suppress(OSError):
                if file is not None:
                    file.close()

    def write_plan(self, plan: Iterable[Planned]) -> None:
        """Write the plan, before any episode."""
        write_text(self.run.path / "plan.jsonl", "".join(json.dumps(asdict(planned)) + "\n" for planned in plan))

    def write_state(self, **state: Any) -> None:
        """Replace run.json."""
        write_json(self.run.path / "run.json", state)

    def append(self, planned: Planned, trajectory: Trajectory) -> Row:
        """Put an attempt on disk: first its trajectory, then its row.

        Raises:
            RecordError: It cannot be written; what was written before stays readable.
        """
        with _writing(self.run.path):
            shard = self._shard = self._shard or self._new_shard()
            rows = self._rows = self._rows or self._open_rows()
            offset = shard.tell()
            shard.write(gzip.compress(_dump(trajectory).encode(), compresslevel=6, mtime=0))
            _sync(shard)
            place = {"shard": Path(shard.name).name, "offset": offset, "length": shard.tell() - offset}
            row = {"key": planned.key, **row_of(trajectory), **place}
            rows.write(json.dumps(row).encode() + b"\n")
            _sync(rows)
        return row

    def _open_rows(self) -> IO[bytes]:
        """Open episodes.jsonl at the end of its last whole line."""
        file = (self.run.path / "episodes.jsonl").open("a+b")
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        return file

    def _new_shard(self) -> IO[bytes]:
        folder = self.run.path / "trajectories"
        taken = [int(path.name[:4]) for path in folder.glob("[0-9][0-9][0-9][0-9].jsonl.gz")]
        return (folder / f"{max(taken, default=-1) + 1:04d}.jsonl.gz").open("xb")


def _dump(trajectory: Trajectory) -> str:
    head = {name: getattr(trajectory, name) for name in _HEAD}
    lines = [head, *(_turn_row(turn) for turn in trajectory.turns)]
    return "".join(json.dumps(line, default=str) + "\n" for line in lines)


_HEAD = tuple(name for name in Trajectory.__dataclass_fields__ if name != "turns")
_REPLY = tuple(Reply.__dataclass_fields__)


def _turn_row(turn: Turn) -> Row:
    row = {name: getattr(turn, name) for name in Turn.__dataclass_fields__}
    row["info"] = {key: value for key, value in turn.info.items() if not isinstance(value, bytes)}
    row["reply"] = {name: getattr(turn.reply, name) for name in _REPLY}
    return row


def _misfit(head: Any, turns: Iterable[Any]) -> str | None:
    """Say what keeps the lines of a trajectory from being one; None if nothing does."""
    misfit = Shape.of(Trajectory).misfit(head)
    if misfit or "turns" in head:
        return misfit or "has turns in its first line"
    if not {"cause", "message"} <= (head.get("failure") or {"cause": "", "message": ""}).keys():
        return "does not say what failed"
    said = ((k, Shape.of(Turn).misfit(turn)) for k, turn in enumerate(turns))
    return next((f"has a turn {k} that {misfit}" for k, misfit in said if misfit), None)


def _turn(row: Row) -> Turn:
    stored: Row = row.pop("reply")
    reply: Row = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}
    advantages = row.pop("advantages", None)
    return Turn(**row, reply=Reply(**reply), advantages=None if advantages is None else tuple(advantages))


def _verify(trajectory: Trajectory, row: Row) -> None:
    previous, last = "", len(trajectory.turns) - 1
    for k, turn in enumerate(trajectory.turns):
        end = trajectory.end if k == last and trajectory.end in ("terminated", "truncated") else None
        previous = turn_hash(previous, turn.observation, turn.action, turn.reward, turn.terms, end)
        if previous != turn.hash:
            raise IntegrityError(f"the hash chain of {row['key']} breaks at turn {k}")
    if previous != row["hash"]:
        raise IntegrityError(f"the row of {row['key']} names another trajectory than the one stored")


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@]+", "-", name).strip("-")[:60] or "unnamed"


class _writing:  # noqa: N801 - reads as a statement: `with _writing(path):`
    """Say what could not be written where, instead of a bare OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise RecordError(f"cannot write {self.path}: {reason}") from error
