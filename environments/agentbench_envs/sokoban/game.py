"""The rules of gym-sokoban 0.0.6, on one flat bytearray that is at the same time the text of the grid.

The outside speaks the original's codes and actions. Inside, a cell is one byte, a line ends in a newline byte, and two
codes are added (player on target, newline), so that no second array has to be kept in step: the floor under the player
is in the player's code, and decoding the bytes gives the observation.

    game = Sokoban(*generate_room((6, 6), num_boxes=1, num_steps=20, seed=0), max_steps=20)
    reward, done = game.act(1)

`generate_room` is gym-sokoban's generator, `generate_ragen_room` RAGEN's.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentbench.core.errors import GenerationError
from agentbench_envs.sokoban.codes import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET
from agentbench_envs.sokoban.generate import generate_ragen_room, generate_room
from agentbench_envs.sokoban.levels import Level

__all__ = ["GenerationError", "Sokoban", "generate_ragen_room", "generate_room"]

STEP_PENALTY: Final = -0.1
ON_TARGET: Final = 1.0
OFF_TARGET: Final = -1.0
FINISHED: Final = 10.0

ACTIONS = (
    "no operation",
    "push up",
    "push down",
    "push left",
    "push right",
    "move up",
    "move down",
    "move left",
    "move right",
)
"""The original's actions by code. A push without a box in front is a move; a move never pushes."""

_FREE = (FLOOR, TARGET)
_BOXES = (BOX, BOX_ON_TARGET)


class Sokoban:
    """One game.

    Args:
        room_fixed: Walls 0, floor 1, targets 2; the border is wall.
        room_state: As `room_fixed`, with boxes on target 3, boxes off target 4 and the player 5.
        max_steps: The game ends when this many actions were played.

    Raises:
        UsageError: The arrays are no level (see `levels.Level.check`).
    """

    def __init__(self, room_fixed: ArrayLike, room_state: ArrayLike, *, max_steps: int) -> None:
        self._start(Level.from_room(room_fixed, room_state), max_steps)

    @classmethod
    def of(cls, level: Level, *, max_steps: int, steps: int = 0) -> "Sokoban":
        """Start from a level, with some of the steps already spent."""
        game = cls.__new__(cls)
        game._start(level, max_steps)
        game.steps = steps
        return game

    def _start(self, level: Level, max_steps: int) -> None:
        self.cells = bytearray(level.cells)
        """The level's codes, line by line, each line ended by a newline code."""
        self.stride = level.stride
        self.deltas = (0, -self.stride, self.stride, -1, 1, -self.stride, self.stride, -1, 1)
        self.max_steps = max_steps
        self.steps = 0
        self.player = level.player
        """The player's cell, an index into `cells`."""
        self.boxes = level.boxes
        """The cells of the boxes, as bits."""
        self.num_boxes = self.boxes.bit_count()
        self.boxes_on_target = self.cells.count(BOX_ON_TARGET)
        self.moved_player = False
        """Whether the last action moved the player."""
        self.moved_box = False
        """Whether the last action moved a box."""

    def act(self, action: int) -> tuple[float, bool]:
        """Play one of the original's actions (see `ACTIONS`).

        Returns:
            The reward, one of -0.1, 0.9, -1.1 and 10.9 (9.9 for a level that is solved from the start), and whether
            the game is over: all boxes on targets, or exactly `max_steps` actions played.

        Raises:
            ValueError: There is no such action.
        """
        if not 0 <= action <= 8:
            raise ValueError(f"found action {action!r}, expected 0 to 8")
        cells, delta = self.cells, self.deltas[action]
        self.steps += 1
        there = self.player + delta
        ahead = cells[there]
        self.moved_box = self.moved_player = False
        reward = STEP_PENALTY
        if ahead in _FREE:
            self.moved_player = True
            cells[self.player] -= PLAYER - FLOOR
            cells[there] += PLAYER - FLOOR
            self.player = there
        elif ahead in _BOXES and 0 < action < 5:
            reward += self._push(there, delta)
        if self.boxes_on_target == self.num_boxes:
            return reward + FINISHED, True
        return reward, self.steps == self.max_steps

    def _push(self, box: int, delta: int) -> float:
        """Push the box in front, if the cell behind it is free; return what the box earns."""
        cells, beyond = self.cells, box + delta
        if cells[beyond] not in _FREE:
            return 0.0
        self.moved_player = self.moved_box = True
        left_target, found_target = cells[box] == BOX_ON_TARGET, cells[beyond] == TARGET
        cells[beyond] = BOX_ON_TARGET if found_target else BOX
        cells[box] = PLAYER_ON_TARGET if left_target else PLAYER
        cells[self.player] -= PLAYER - FLOOR
        self.player = box
        self.boxes ^= 1 << box | 1 << beyond
        self.boxes_on_target += found_target - left_target
        return ON_TARGET * found_target + OFF_TARGET * left_target

    @property
    def level(self) -> Level:
        """The present position as a level."""
        return Level(bytes(self.cells), self.stride)

    @property
    def room_fixed(self) -> NDArray[np.int64]:
        """Walls, floor and targets in the original's codes."""
        return self.level.room_fixed

    @property
    def room_state(self) -> NDArray[np.int64]:
        """The position in the original's codes."""
        return self.level.room_state

    @property
    def player_position(self) -> tuple[int, int]:
        """Row and column of the player."""
        row, column = divmod(self.player, self.stride)
        return row, column
