"""What a report reads: evaluations and training runs, and the episodes of both, from the files of their directories."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from agentbench.core.errors import IntegrityError, RunInvalid
from agentbench.core.records import Planned, Row, RunDirectory, digest, read_lines, scored_rows
from agentbench.core.types import Trajectory
from agentbench.evaluate.evidence import Evidence
from agentbench.metrics.collect import summarise

DEMONSTRATED = ("warm-start", "sft")
"""Stages in which a teacher plays: what its episodes are like says nothing about the policy."""


@dataclass(frozen=True)
class Evaluation:
    """A run of `agentbench eval`."""

    label: str
    run: RunDirectory
    evidence: Evidence
    attempts: list[Row]
    """One row per attempt, failures of infrastructure among them."""

    @property
    def summary(self) -> Row:
        """The summary, computed again from plan and rows."""
        return summarise(self.evidence.plan, self.attempts)

    @property
    def episodes(self) -> list[Row]:
        """The attempts that a reader may want to see: the scored one of each planned episode, else its last."""
        by_key = {row["key"]: row for row in self.attempts} | dict(self.evidence.rows)
        return [by_key[planned.key] for planned in self.evidence.plan if planned.key in by_key]

    @property
    def planned(self) -> tuple[Planned, ...]:
        """Every planned episode."""
        return self.evidence.plan


@dataclass(frozen=True)
class Training:
    """A run of `agentbench train`."""

    label: str
    run: RunDirectory
    state: Row
    rows: list[Row]
    """metrics.jsonl: one row per update."""
    kept: list[Row]
    """The rows of the training episodes that were recorded."""

    @property
    def env(self) -> str:
        """What it was trained on, as its recipe says."""
        return str(self.state["config"]["env"])

    @property
    def algorithm(self) -> str:
        """The name of its main stage."""
        return str(self.state["config"]["algorithm"]["name"])

    @property
    def recipe(self) -> str:
        """Equal for runs that differ in nothing but their seed."""
        return digest({key: value for key, value in self.state["config"].items() if key not in ("seed", "out")})

    @property
    def played(self) -> list[Row]:
        """The updates in which the policy itself played."""
        return [row for row in self.rows if row["stage"] not in DEMONSTRATED]

    @property
    def validated(self) -> list[Row]:
        """The updates after which the valid panel was played."""
        return [row for row in self.rows if "valid/success" in row]

    @property
    def best(self) -> Row | None:
        """The update that did best on the valid panel, the first of equals."""
        return max(self.validated, key=lambda row: row["valid/success"], default=None)

    @property
    def episodes(self) -> list[Row]:
        """The recorded training episodes."""
        return self.kept


Run = Evaluation | Training


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read run directories of any kind.

    Args:
        paths: The directories; one that is named twice is read once.

    Raises:
        UsageError: There is no run at a path.
        RunInvalid: A run is damaged, or has nothing to report yet.
    """
    runs = [_read(path) for path in dict.fromkeys(path.resolve() for path in paths)]
    return [replace(run, label=label) for run, label in zip(runs, _labels(runs), strict=True)]


def _read(path: Path) -> Run:
    run = RunDirectory.open(path)
    try:
        state = run.state
        if state.get("kind") != "train":
            return Evaluation(str(run.lock["policy"]), run, Evidence.load(path), run.rows())
        rows = list(read_lines(path / "metrics.jsonl"))
        _check(path, state, rows)
        return Training(
            str(state["config"]["algorithm"]["name"]), run, state, rows, list(scored_rows(run.rows()).values())
        )
    except IntegrityError as error:
        raise RunInvalid(f"{path} is damaged and cannot be reported: {error}") from error


def _check(path: Path, state: Row, rows: Sequence[Row]) -> None:
    """Make sure that everything which is read later is there, and is what it should be."""
    if not rows:
        raise RunInvalid(f"{path} has nothing to report yet: no update is in its metrics.jsonl ({state['status']})")
    config = state["config"]
    if not (isinstance(config, dict) and isinstance(config.get("algorithm"), dict) and "name" in config["algorithm"]):
        raise IntegrityError("run.json has no recipe")
    for row in rows:
        wrong = [key for key, value in row.items() if key != "stage" and not isinstance(value, int | float)]
        if wrong or "stage" not in row or "update" not in row:
            raise IntegrityError(
                f"metrics.jsonl has a row without stage, update or a number in {', '.join(wrong) or 'them'}"
            )


def _labels(runs: Sequence[Run]) -> list[str]:
    """Tell runs of one name apart: by environment or seed where those differ, else by the end of their directory."""
    labels = [run.label for run in runs]
    for tell in (_env, _seed, _id):
        said = [tell(run) for run in runs]
        kinds = {label: {s for s, own in zip(said, labels, strict=True) if own == label} for label in labels}
        labels = [f"{label}, {s}" if len(kinds[label]) > 1 else label for label, s in zip(labels, said, strict=True)]
    return labels


def _env(run: Run) -> str:
    return run.env if isinstance(run, Training) else run.evidence.env


def _seed(run: Run) -> str:
    config = run.state["config"] if isinstance(run, Training) else run.evidence.config
    return f"seed {config.get('seed', 0)}"


def _id(run: Run) -> str:
    return run.run.path.name.rpartition("--")[2][-8:]


class Episode(NamedTuple):
    """One recorded episode."""

    run: Run
    row: Row
    trajectory: Trajectory


def read_episodes(run: Run, rows: Iterable[Row]) -> Iterator[Episode]:
    """Read the trajectories that rows point at.

    Raises:
        RunInvalid: One is missing or damaged.
    """
    for row in rows:
        try:
            yield Episode(run, row, run.run.trajectory(row))
        except IntegrityError as error:
            raise RunInvalid(f"{run.run.path} is damaged and cannot be reported: {error}") from error


def evenly(rows: Sequence[Any], limit: int) -> list[Any]:
    """Return at most so many of the rows, at equal distances, first and last among them."""
    if len(rows) <= limit:
        return list(rows)
    if limit < 2:
        return list(rows[:limit])
    return [rows[round(i * (len(rows) - 1) / (limit - 1))] for i in range(limit)]


def choose(rows: Sequence[Row], limit: int, wanted: Sequence[str] = ()) -> list[Row]:
    """Choose episodes to look at: those asked for, then failed ones, then successful ones, a third of the room.

    Args:
        rows: Attempts, of which some failed.
        limit: How many to choose.
        wanted: Keys, or tasks, or their beginnings.
    """
    asked = [row for row in rows if any(row["key"].startswith(w) or row["task"].startswith(w) for w in wanted)]
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row not in asked:
            kinds["broken" if not row["scored"] else "solved" if row["success"] else "failed"].append(row)
    room = max(0, limit - len(asked))
    broken = evenly(kinds["broken"], room // 4)
    solved = evenly(kinds["solved"], max(room // 3, room - len(broken) - len(kinds["failed"])))
    failed = evenly(kinds["failed"], room - len(broken) - len(solved))
    return [*asked, *broken, *failed, *solved]
