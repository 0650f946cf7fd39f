"""Where two runs of the same task part ways: the first turn whose links in the hash chains differ.

Up to that turn the two saw and did the same. There, either the policies chose different actions, or the environment
answered the same actions differently: then it is not as deterministic as it should be, or not the same.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agentbench.core.errors import IntegrityError, RunInvalid
from agentbench.core.records import RunDirectory
from agentbench.core.types import Trajectory
from agentbench.evaluate.evidence import Evidence

READ = 2000
"""Pairs of episodes that are read; more are left out, and the result says so."""


class Parting(NamedTuple):
    """Where two episodes of one task and trial part."""

    task: str
    seed: int
    trial: int
    turn: int
    """Counted from 0; the number of shared turns."""
    what: Literal["action", "environment", "end"]
    """What differs there: what was done, what came of it, or that one episode goes on."""
    observation: str
    """What both saw; of an environment that differs, what the first one saw."""
    ours: str
    theirs: str
    """What each did there; empty where it was over."""
    won: tuple[bool | None, bool | None]


@dataclass(frozen=True, slots=True)
class Partings:
    """All episodes that two runs have in common."""

    shared: int
    """Planned episodes that both have scored."""
    identical: int
    """Equal in every turn."""
    read: int
    """Of the others, how many were looked at."""
    parted: tuple[Parting, ...]

    @property
    def turns(self) -> dict[int, int]:
        """How many episodes part at each turn."""
        return dict(sorted(Counter(parting.turn for parting in self.parted).items()))


def part(ours: Evidence, theirs: Evidence, *, limit: int = READ) -> Partings:
    """Find where the episodes of two runs part.

    Args:
        ours: A run.
        theirs: Another one of the same panel.
        limit: Pairs of different episodes to read.

    Raises:
        RunInvalid: A trajectory cannot be read, or its hash chain does not hold.
    """
    both = [planned for planned in ours.plan if planned.key in ours.rows and planned.key in theirs.rows]
    different = [planned for planned in both if ours.rows[planned.key]["hash"] != theirs.rows[planned.key]["hash"]]
    chosen = different[:: max(1, -(-len(different) // limit))]
    directories = RunDirectory.open(ours.path), RunDirectory.open(theirs.path)
    parted = []
    for planned in chosen:
        first, second = (
            _read(directory, run, planned.key) for directory, run in zip(directories, (ours, theirs), strict=True)
        )
        parted.append(_part(first, second))
    return Partings(len(both), len(both) - len(different), len(chosen), tuple(parted))


def _read(directory: RunDirectory, run: Evidence, key: str) -> Trajectory:
    try:
        return directory.trajectory(dict(run.rows[key]))
    except IntegrityError as error:
        raise RunInvalid(f"{run.path} is damaged and proves nothing: {error}") from error


def _part(ours: Trajectory, theirs: Trajectory) -> Parting:
    turn = next(_different(ours, theirs))
    here, there = (run.turns[turn] if turn < len(run.turns) else None for run in (ours, theirs))
    what: Literal["action", "environment", "end"] = "end"
    if here is not None and there is not None:
        what = "action" if here.observation == there.observation and here.action != there.action else "environment"
    seen = here or there
    about = (ours.task, ours.seed, ours.trial, turn, what, seen.observation if seen else "")
    return Parting(*about, here.action if here else "", there.action if there else "", (ours.success, theirs.success))


def _different(ours: Trajectory, theirs: Trajectory) -> Iterator[int]:
    chains: Sequence[list[str]] = [[turn.hash for turn in run.turns] for run in (ours, theirs)]
    yield from (k for k, (mine, other) in enumerate(zip(*chains, strict=False)) if mine != other)
    yield min(map(len, chains))
