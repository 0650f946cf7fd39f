"""Levels: from and to text and arrays, files of them, and when two of them are the same.

Two levels are the same if one is a rotation or a reflection of the other, or has more wall around it. Splits go by a
coarser content: levels with the same walls and targets belong to the same split wherever boxes and player stand. So a
test level shares neither its position nor its room with a training level, and the generator can tell a room's split
before it plays backwards.
"""

import codecs
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentbench.core.errors import UsageError
from agentbench_envs.sokoban.codes import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    NEWLINE,
    PLAYER,
    PLAYER_ON_TARGET,
    RAGEN_GLYPHS,
    TARGET,
    UNDER,
    WALL,
    XSB_GLYPHS,
)

Split = Literal["train", "valid", "test"]

_CODES = {glyph: code for glyphs in (XSB_GLYPHS, RAGEN_GLYPHS) for code, glyph in enumerate(glyphs)} | {"-": FLOOR}
"""Both alphabets together: no glyph means two things."""

_TENTHS: tuple[Split, ...] = ("train",) * 8 + ("valid", "test")

_REMARK = re.compile(r"\s*(;|[A-Za-z]+ *:)")
"""What stands around the levels of a collection: `; 3`, `Title: Four corners`, `Author: ...`."""

OPEN_BORDER = "the level has an open border; expected walls (#) around player, boxes and targets"

MOST_CELLS = 10_000
"""Larger texts are no levels."""


class Level(NamedTuple):
    """A position: one code per cell (see `codes`), line by line, each line ended by a newline code but the last."""

    cells: bytes
    stride: int
    """Cells from one line to the next: the columns and the newline."""

    @classmethod
    def from_room(cls, room_fixed: ArrayLike, room_state: ArrayLike) -> "Level":
        """Take gym-sokoban's two arrays.

        Raises:
            UsageError: They are no level, or contradict each other.
        """
        fixed, state = np.asarray(room_fixed), np.array(room_state)
        if fixed.ndim != 2 or fixed.shape != state.shape:
            raise UsageError(f"found arrays of shape {fixed.shape} and {state.shape}, expected two equal grids")
        state[(state == PLAYER) & (fixed == TARGET)] = PLAYER_ON_TARGET
        level = cls.from_grid(state)
        if not np.array_equal(level.room_fixed, fixed):
            raise UsageError("room_fixed and room_state disagree about walls or targets")
        return level.check()

    @classmethod
    def from_grid(cls, grid: NDArray[np.integer]) -> "Level":
        """Take codes as rows and columns, unchecked."""
        rows, columns = grid.shape
        lines = np.full((rows, columns + 1), NEWLINE, dtype=np.uint8)
        lines[:, :-1] = grid
        return cls(lines.tobytes()[:-1], columns + 1)

    @property
    def grid(self) -> NDArray[np.int64]:
        """The codes as rows and columns."""
        lines = np.frombuffer(self.cells + bytes((NEWLINE,)), dtype=np.uint8)
        return lines.reshape(-1, self.stride)[:, :-1].astype(np.int64)

    @property
    def fixed(self) -> bytes:
        """The cells without boxes and player."""
        return self.cells.translate(UNDER)

    @property
    def room_fixed(self) -> NDArray[np.int64]:
        """gym-sokoban's `room_fixed`."""
        return Level(self.fixed, self.stride).grid

    @property
    def room_state(self) -> NDArray[np.int64]:
        """gym-sokoban's `room_state`, where the player hides what is below."""
        return np.minimum(self.grid, PLAYER)

    @property
    def player(self) -> int:
        """The player's cell."""
        return max(self.cells.find(PLAYER), self.cells.find(PLAYER_ON_TARGET))

    @property
    def boxes(self) -> int:
        """The cells of the boxes, as bits."""
        return sum(1 << cell for cell, code in enumerate(self.cells) if code in (BOX, BOX_ON_TARGET))

    @property
    def text(self) -> str:
        """The grid in the agent's glyphs."""
        return codecs.charmap_decode(self.cells, "strict", RAGEN_GLYPHS)[0]

    @property
    def xsb(self) -> str:
        """The grid in the standard glyphs."""
        return codecs.charmap_decode(self.cells, "strict", XSB_GLYPHS)[0]

    def check(self) -> "Level":
        """Return this level if it can be played.

        Raises:
            UsageError: Not exactly one player, no box, not as many boxes as targets, or an open border.
        """
        count = self.cells.count
        players = count(PLAYER) + count(PLAYER_ON_TARGET)
        boxes = count(BOX) + count(BOX_ON_TARGET)
        targets = self.fixed.count(TARGET)
        if players != 1:
            raise UsageError(f"found {players} players in the level, expected one (@, or + on a target)")
        if boxes == 0:
            raise UsageError("found no box in the level, expected at least one ($, or * on a target)")
        if boxes != targets:
            raise UsageError(f"found {boxes} boxes and {targets} targets in the level, expected as many of each")
        grid = self.grid
        if grid[[0, -1]].any() or grid[:, [0, -1]].any():
            raise UsageError(OPEN_BORDER)
        return self


def parse(text: str) -> Level:
    """Read one level from XSB text; the agent's glyphs are understood too.

    Comments, titles and empty lines around it are dropped, short lines are filled up, and floor outside the walls
    becomes wall.

    Raises:
        UsageError: An unknown glyph, or what `Level.check` refuses.
    """
    lines = ["" if _REMARK.match(line) else line.rstrip() for line in text.split("\n")]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    if not lines:
        raise UsageError("found an empty text, expected a level in XSB")
    width = max(map(len, lines))
    if width * len(lines) > MOST_CELLS:
        raise UsageError(f"found a level of {len(lines)} lines, {width} wide; expected at most {MOST_CELLS} cells")
    grid = np.full((len(lines), width), FLOOR, dtype=np.int64)
    for row, line in enumerate(lines):
        for column, glyph in enumerate(line):
            if glyph not in _CODES:
                raise UsageError(f"unknown glyph {glyph!r} in line {row + 1}; expected one of # @ + $ * . - _ or space")
            grid[row, column] = _CODES[glyph]
    _wall_up(grid)
    return Level.from_grid(grid).check()


def _wall_up(grid: NDArray[np.int64]) -> None:
    """Turn the floor outside the walls into wall.

    Raises:
        UsageError: Player, box or target can be reached from there.
    """
    rows, columns = grid.shape
    edge = [(row, column) for row in range(rows) for column in (0, columns - 1)]
    edge += [(row, column) for row in (0, rows - 1) for column in range(columns)]
    while edge:
        row, column = edge.pop()
        if not (0 <= row < rows and 0 <= column < columns) or grid[row, column] == WALL:
            continue
        if grid[row, column] != FLOOR:
            raise UsageError(OPEN_BORDER)
        grid[row, column] = WALL
        edge += [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]


def read_levels(folder: Path) -> Iterator[Level]:
    """Read every level of every `.txt` file below a folder, in the order of the paths.

    The format is that of Boxoban: a line `; number` before each level, an empty line after it.

    Raises:
        UsageError: There is no such folder, no level in it, or a level is broken; the message says where.
    """
    files = sorted(folder.rglob("*.txt"))
    if not files:
        raise UsageError(f"found no .txt file in {folder}; expected level files in Boxoban's format")
    for file in files:
        for number, text in enumerate(_texts(file.read_text(encoding="utf-8"))):
            try:
                yield parse(text)
            except UsageError as error:
                raise UsageError(f"{file}, level {number}: {error}") from None


def _texts(content: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*content.splitlines(), ";"]:
        if line.startswith(";") or not line.strip():
            if lines:
                yield "\n".join(lines)
            lines = []
        else:
            lines.append(line)


def canonical(grid: NDArray[np.integer]) -> bytes:
    """Return what is equal for all eight symmetric copies of a grid, with any amount of wall around."""
    rows, columns = np.flatnonzero(grid.any(axis=1)), np.flatnonzero(grid.any(axis=0))
    if not len(rows):
        return b""
    core = grid[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].astype(np.uint8)
    copies = [turned for turn in range(4) for turned in (np.rot90(core, turn), np.rot90(core, turn).T)]
    return min(f"{len(copy)} ".encode() + copy.tobytes() for copy in copies)


def content_hash(level: Level) -> str:
    """Return a hash that is equal exactly for symmetric copies of a level."""
    return hashlib.sha256(canonical(level.grid)).hexdigest()


def split_of(room_fixed: NDArray[np.integer]) -> Split:
    """Return the split to which every level with these walls and targets belongs: 80 % train, 10 % valid, 10 % test."""
    digest = hashlib.sha256(canonical(room_fixed)).digest()
    return _TENTHS[int.from_bytes(digest[:8], "big") % 10]
