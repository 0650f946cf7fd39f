"""Room generation by reverse play, order-exact with the two generators that the literature trains on.

A random walk digs a room, the player and solved boxes are placed, and reverse play pulls the boxes away. Both functions
draw the same numbers in the same order as the originals do after seeding Python's and numpy's global generators, so the
same seed gives the same room:

* `generate_room`: gym-sokoban 0.0.6;
* `generate_ragen_room`: RAGEN 5eb79b8, where a box behind the player always follows and the player finally wanders off.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentbench.core.errors import GenerationError
from agentbench_envs.sokoban.codes import BOX, FLOOR, PLAYER, TARGET, WALL
from agentbench_envs.sokoban.reverse import Played, reverse_play

Array = NDArray[np.int64]
Accept = Callable[[Array], bool]
"""Judges a room's walls and targets before the costly reverse play."""

STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Up, down, left, right."""

WALK = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Directions of the digging walk, in the original's order."""

MASKS = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)
"""What the walk digs around its position: offsets in rows and columns."""

GYM_DEPTH = 300
"""The original's fixed `ttl`."""

WANDER_STEPS = 3
"""Most steps that RAGEN lets the player walk away after reverse play."""


class Room(NamedTuple):
    """A generated level in the original's codes."""

    room_fixed: Array
    room_state: Array


class RejectedError(GenerationError):
    """The caller does not want a room with these walls and targets."""


def generate_room(
    dim_room: Sequence[int],
    num_boxes: int,
    num_steps: int,
    seed: int,
    p_change_directions: float = 0.35,
    tries: int = 4,
    accept: Accept | None = None,
) -> Room:
    """Generate the room that gym-sokoban 0.0.6 generates from this seed.

    Args:
        dim_room: Rows and columns, border included.
        num_boxes: Number of boxes, and of targets.
        num_steps: Length of the digging walk.
        seed: Below 2**32.
        p_change_directions: Chance that the walk turns, per step.
        tries: How many rooms to dig before giving up.
        accept: May turn a dug room down by its walls and targets, which ends the call.

    Raises:
        GenerationError: Where the original raises: too little floor, or no box can be pulled away.
        RejectedError: `accept` said no.
    """
    source = Source(seed)
    for _ in range(tries):
        draft = source.draft(dim_room, num_boxes, num_steps, p_change_directions, accept)
        played = draft.reverse_play(GYM_DEPTH, leave_boxes=True)
        if played.score > 0:
            return draft.room(played)
    raise GenerationError("Generated Model with score == 0")


def generate_ragen_room(
    dim_room: Sequence[int],
    num_boxes: int,
    num_steps: int,
    seed: int,
    search_depth: int = 300,
    p_change_directions: float = 0.35,
    tries: int = 4,
    accept: Accept | None = None,
) -> Room:
    """Generate the room that RAGEN 5eb79b8 generates from this seed.

    Its solution has at most `search_depth + 1` moves: at most three steps of walking back, then the reverse play
    backwards.

    Args:
        dim_room: Rows and columns, border included.
        num_boxes: Number of boxes, and of targets.
        num_steps: Length of the digging walk.
        seed: Below 2**32.
        search_depth: Limit of the reverse play; its path has at most `search_depth - 2` actions.
        p_change_directions: Chance that the walk turns, per step.
        tries: How many rooms to dig before giving up.
        accept: May turn a dug room down by its walls and targets, which ends the call.

    Raises:
        GenerationError: Where the original raises: too little floor, or no box can be pulled away.
        RejectedError: `accept` said no.
    """
    source = Source(seed)
    for _ in range(tries):
        draft = source.draft(dim_room, num_boxes, num_steps, p_change_directions, accept)
        played = draft.reverse_play(search_depth, leave_boxes=False)
        if played.score > 0:
            room = draft.room(played)
            source.wander(room, 0.8 if played.displacement == 1 else 0.5)
            return room
    raise GenerationError("Generated Model with score == 0")


class Draft(NamedTuple):
    """A dug room with the player and the targets, before reverse play."""

    fixed: Array
    player: int
    targets: list[int]

    def reverse_play(self, depth: int, *, leave_boxes: bool) -> Played:
        """Number the floor cells and hand over to the search."""
        columns = self.fixed.shape[1]
        cells = np.flatnonzero(self.fixed).tolist()
        number = {cell: index for index, cell in enumerate(cells)}
        neighbours = [
            [number.get(cell + row * columns + column, -1) for row, column in STEPS]  # the border is wall
            for cell in cells
        ]
        distances = [
            [abs(cell // columns - target // columns) + abs(cell % columns - target % columns) for cell in cells]
            for target in self.targets
        ]
        targets = [number[target] for target in self.targets]
        played = reverse_play(neighbours, distances, number[self.player], targets, depth=depth, leave_boxes=leave_boxes)
        return played._replace(player=cells[played.player], boxes=[cells[box] for box in played.boxes])

    def room(self, played: Played) -> Room:
        """Put boxes and player where reverse play left them."""
        state = self.fixed.copy()
        state.flat[played.boxes] = BOX
        state.flat[played.player] = PLAYER
        return Room(self.fixed, state)


class Source:
    """The two generators that the originals use globally, and what is drawn from them."""

    def __init__(self, seed: int) -> None:
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)

    def draft(
        self, dim_room: Sequence[int], num_boxes: int, num_steps: int, p_turn: float, accept: Accept | None
    ) -> Draft:
        """Dig a room and place player and targets.

        Raises:
            GenerationError: There is too little floor.
            RejectedError: `accept` said no.
        """
        rows, columns = dim_room
        floor = self._dig(rows, columns, num_steps, p_turn)
        free = np.flatnonzero(floor).tolist()
        if len(free) <= num_boxes + 1:
            raise GenerationError(f"Not enough free spots (#{len(free)}) to place 1 player and {num_boxes} boxes.")
        player, *targets = [free.pop(self.numpy.randint(len(free))) for _ in range(num_boxes + 1)]
        floor.flat[targets] = TARGET
        if accept is not None and not accept(floor):
            raise RejectedError("not wanted")
        return Draft(floor, player, sorted(targets))

    def _dig(self, rows: int, columns: int, num_steps: int, p_turn: float) -> Array:
        draw = self.python
        level = np.zeros((rows, columns), dtype=np.int64)
        way = draw.sample(WALK, 1)[0]
        row, column = draw.randint(1, rows - 1), draw.randint(1, columns - 1)
        for _ in range(num_steps):
            if draw.random() < p_turn:
                way = draw.sample(WALK, 1)[0]
            row = max(min(row + way[0], rows - 2), 1)
            column = max(min(column + way[1], columns - 2), 1)
            for down, right in draw.sample(MASKS, 1)[0]:
                level[row + down, column + right] = FLOOR
        level[:, [0, columns - 1]] = WALL
        level[[0, rows - 1], :] = WALL
        return level

    def wander(self, room: Room, chance: float) -> None:
        """Let the player walk off up to three free cells, never back."""
        fixed, state = room
        if self.python.random() > chance:
            return
        row, column = np.argwhere(state == PLAYER)[0].tolist()
        been = [(row, column)]
        for left in reversed(range(WANDER_STEPS)):
            near = [(row + down, column + right) for down, right in STEPS]
            open_cells = [cell for cell in near if state[cell] in (FLOOR, TARGET) and cell not in been]
            if not open_cells:
                return
            state[row, column] = fixed[row, column]
            row, column = self.python.choice(open_cells)
            state[row, column] = PLAYER
            been.append((row, column))
            if not left or self.python.random() > 0.5:
                return
