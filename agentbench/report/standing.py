"""Who stands where on a board: only what is comparable side by side, ties where the data show no difference.

Rows share a *standing* if they played the same tasks under the same turn cap and prompt format; others are never
ranked together. Ranks come from the paired tests of evaluate/compare.py, held together by Holm: `1-4` says that the
row may be first and may be fourth. Scripted policies are not ranked: they mark the scale. The normalised score is 0 at
the better floor (random, nop) and 1 at the ceiling (oracle).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentbench.core.records import canonical
from agentbench.evaluate.bundle import Bundle
from agentbench.evaluate.compare import Comparison, Side, compare
from agentbench.report.leaderboard import Board
from agentbench.report.rows import Measured


@dataclass(frozen=True, slots=True)
class Place:
    """One row in its standing."""

    row: Measured
    best: int | None
    worst: int | None
    """The ranks that the data allow; None for a scripted policy."""
    normalised: float | None
    """0 at the floor, 1 at the ceiling; None where one of them was not measured."""
    frontier: bool
    """No other model scores as well with fewer tokens."""

    @property
    def rank(self) -> str:
        """The rank as tables show it."""
        if self.best is None:
            return self.row.role
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything that was measured on one panel in one way."""

    env: str
    split: str
    panel: str
    max_turns: int
    agent: str
    places: tuple[Place, ...]
    """Models by score, then ceiling and floors."""
    comparison: Comparison | None
    """Every pair of models; None if there are fewer than two."""

    @property
    def title(self) -> str:
        """What was played, and how."""
        return ", ".join(filter(None, (f"{self.env}:{self.split}", self.agent)))


def standings(board: Board) -> list[Standing]:
    """Put the measured rows of a board into their standings."""
    bundles = {row.bundle: board.bundle(row.bundle) for row in board.measured}
    played: dict[str, list[Measured]] = defaultdict(list)
    for row in board.measured:
        played[_played(bundles[row.bundle])].append(row)
    return [standing for rows in played.values() for standing in _standings(rows, bundles)]


def _played(bundle: Bundle) -> str:
    """What rows must share to be compared at all: tasks, arguments, instructions and limits."""
    lock: dict[str, Any] = bundle.head.lock
    fields = ("env", "split", "env_args", "env_source", "panel", "instructions", "limits")
    return canonical([lock.get(field) for field in fields])


def _standings(rows: Sequence[Measured], bundles: dict[str, Bundle]) -> list[Standing]:
    """Make one standing of each way in which models were asked; scripted policies belong to every one."""
    scripted = [row for row in rows if row.role != "model"]
    ways = dict.fromkeys(row.agent for row in rows if row.role == "model") or {"": None}
    return [
        _standing(agent, [row for row in rows if row.role == "model" and row.agent == agent], scripted, bundles)
        for agent in ways
    ]


def _standing(
    agent: str, models: Sequence[Measured], scripted: Sequence[Measured], bundles: dict[str, Bundle]
) -> Standing:
    ordered = sorted(models, key=lambda row: (-row.score, row.name, row.bundle))
    marks = sorted(scripted, key=lambda row: (row.role != "ceiling", -row.score, row.name))
    comparison = _compare(ordered, bundles) if len(ordered) > 1 else None
    # Sides are told apart by their bundle: two rows may have the same name.
    ranks = {rank.side.name: (rank.best, rank.worst) for rank in comparison.ranking} if comparison else {}
    floor = max((row.score for row in marks if row.role == "floor"), default=None)
    ceiling = max((row.score for row in marks if row.role == "ceiling"), default=None)

    def place(row: Measured) -> Place:
        best, worst = ranks.get(row.bundle, (1, 1)) if row.role == "model" else (None, None)
        frontier = row.role == "model" and not any(_dominates(other, row) for other in ordered)
        return Place(row, best, worst, _normalise(row.score, floor, ceiling), frontier)

    first = [*ordered, *marks][0]
    places = tuple(place(row) for row in [*ordered, *marks])
    return Standing(first.env, first.split, first.panel, first.max_turns, agent, places, comparison)


def _compare(rows: Sequence[Measured], bundles: dict[str, Bundle]) -> Comparison:
    return compare([Side(row.bundle, (bundles[row.bundle].evidence,)) for row in rows], metric=rows[0].metric)


def _dominates(other: Measured, row: Measured) -> bool:
    """Tell whether the other row is at least as good in score and tokens, and better in one of them."""
    as_good = other.score >= row.score and other.tokens <= row.tokens
    return as_good and (other.score > row.score or other.tokens < row.tokens)


def _normalise(score: float, floor: float | None, ceiling: float | None) -> float | None:
    if floor is None or ceiling is None or ceiling <= floor:
        return None
    return (score - floor) / (ceiling - floor)
