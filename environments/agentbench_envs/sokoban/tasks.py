"""Which level an episode plays: the seed and the settings decide, and nothing else.

A generated level is drawn again, with the next derived seed, until it fits: its split, the length of its optimal
solution if that is bounded, and a solution within the moves that the game allows. Levels from files are a finite list,
one per seed modulo its length.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from agentbench.core.errors import GenerationError, UsageError
from agentbench.core.seeding import derive
from agentbench_envs.sokoban.board import board_of
from agentbench_envs.sokoban.generate import Array, Room, generate_ragen_room, generate_room
from agentbench_envs.sokoban.levels import Level, read_levels, split_of
from agentbench_envs.sokoban.solver import SearchLimitError, solve

Generator = Literal["ragen", "gym"]

MOST_DRAWS = 20_000
"""Draws after which the settings are called impossible."""

QUICK_WEIGHT = 5
"""Weight of the estimate where a solution need not be the shortest."""

MOST_STATES = 100_000
"""States after which a drawn level counts as too hard to judge, and is dropped."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides a generated level, together with the seed."""

    rows: int
    columns: int
    boxes: int
    generator: Generator
    search_depth: int
    walk: int
    """Steps of the walk that digs the room."""
    shortest: int
    longest: int | None
    """Bounds on the moves of an optimal solution."""
    max_steps: int
    split: str

    def check(self) -> None:
        """Refuse what no level can have.

        Raises:
            UsageError: A value is out of its range.
        """
        if not (4 <= self.rows <= 40 and 4 <= self.columns <= 40):
            raise UsageError(f"found a room of {self.rows} x {self.columns}, expected 4 to 40 rows and columns")
        if not 1 <= self.boxes <= (self.rows - 2) * (self.columns - 2) - 2:
            raise UsageError(f"found {self.boxes} boxes, expected at least one and room for player and boxes")
        if self.generator not in ("ragen", "gym"):
            raise UsageError(f"found generator {self.generator!r}, expected 'ragen' or 'gym'")
        if self.search_depth < 3 or self.walk < 1:
            raise UsageError("search_depth must be at least 3, and num_gen_steps at least 1")
        if self.longest is not None and self.longest < self.shortest:
            raise UsageError(f"max_moves ({self.longest}) is below min_moves ({self.shortest})")
        if self.split not in ("train", "valid", "test"):
            raise UsageError(f"found split {self.split!r}, expected train, valid or test")


@lru_cache(maxsize=4096)
def draw_level(settings: Settings, seed: int) -> Level:
    """Return the level of a seed.

    Raises:
        UsageError: No level fits the settings.
    """
    for draw in range(MOST_DRAWS):
        try:
            level = Level.from_room(*_room(settings, derive("sokoban level", seed, draw) % 2**32))
        except GenerationError:
            continue
        if _fits(settings, level):
            return level
    raise UsageError(f"none of {MOST_DRAWS} rooms fits {settings}; allow other lengths, more steps or fewer boxes")


def _room(settings: Settings, seed: int) -> Room:
    shape = (settings.rows, settings.columns)

    def in_split(room_fixed: Array) -> bool:
        return split_of(room_fixed) == settings.split

    if settings.generator == "gym":
        return generate_room(shape, settings.boxes, settings.walk, seed, accept=in_split)
    return generate_ragen_room(shape, settings.boxes, settings.walk, seed, settings.search_depth, accept=in_split)


def _fits(settings: Settings, level: Level) -> bool:
    """Tell whether the level's solution has a wanted length, and can be played within the steps of the game."""
    bounded = settings.shortest > 1 or settings.longest is not None
    if not bounded and settings.generator == "ragen" and settings.search_depth + 1 <= settings.max_steps:
        return True  # the reverse play itself, backwards, is a solution that is short enough
    board = board_of(level.fixed, level.stride)
    try:
        solution = solve(board, level.boxes, level.player, weight=1 if bounded else QUICK_WEIGHT, limit=MOST_STATES)
    except SearchLimitError:
        return False
    longest = min(settings.max_steps, settings.longest or settings.max_steps)
    return settings.shortest <= len(solution.directions) <= longest


@lru_cache(maxsize=16)
def read_tasks(folder: Path, split: str) -> tuple[Level, ...]:
    """Return the levels of a folder that belong to a split; `all` is every level.

    Raises:
        UsageError: The folder holds no level, a broken level, or none of this split.
    """
    tasks = tuple(level for level in read_levels(folder) if split in ("all", split_of(level.room_fixed)))
    if not tasks:
        raise UsageError(f"no level in {folder} belongs to split {split!r}; split 'all' takes every level")
    return tasks
