"""What stays the same during a game: walls, targets, how far boxes are from targets, and where they are lost.

Cells are numbered along the text of the grid, whose lines end in a newline: cell = row * stride + column with
stride = columns + 1. The border is wall, so neighbours need no bounds; sets of cells are the bits of an integer.
"""

from collections.abc import Sequence
from functools import lru_cache

from agentbench_envs.sokoban.codes import FLOOR, TARGET

FAR = 1 << 20
"""A distance that stands for "never"."""

MATCHED_BOXES = 6
"""Up to this many boxes the bound assigns boxes to targets; beyond, every box takes its nearest target."""


class Board:
    """Walls and targets of a level, with the tables that solver and deadlock test share.

    Args:
        fixed: A code per cell: wall, floor, target, newline.
        stride: Cells per line, the newline included.
    """

    def __init__(self, fixed: bytes, stride: int) -> None:
        self.fixed = fixed
        self.stride = stride
        self.deltas = (-stride, stride, -1, 1)
        self.targets = tuple(cell for cell, code in enumerate(fixed) if code == TARGET)
        self.floor = sum(1 << cell for cell, code in enumerate(fixed) if code in (FLOOR, TARGET))
        self.target_bits = sum(1 << cell for cell in self.targets)
        self.distances = [self._pushes_to(target) for target in self.targets]
        """Per target, the pushes from each cell to it in the empty room; `FAR` where there is no way."""
        nearest = [min(column) for column in zip(*self.distances, strict=True)]
        self.live = sum(1 << cell for cell, pushes in enumerate(nearest) if pushes < FAR)
        """Cells from which a lone box still reaches some target; everywhere else it is lost."""
        self.scale = max(1, sum(max(far for far in row if far < FAR) for row in self.distances))
        """No finite bound exceeds this."""

    def _pushes_to(self, target: int) -> list[int]:
        """Pull a box from the target to everywhere, breadth first."""
        fixed = self.fixed
        pushes = [FAR] * len(fixed)
        pushes[target] = 0
        queue = [target]
        for cell in queue:
            for delta in self.deltas:
                there = cell + delta
                if fixed[there] in (FLOOR, TARGET) and fixed[there + delta] in (FLOOR, TARGET) and pushes[there] == FAR:
                    pushes[there] = pushes[cell] + 1
                    queue.append(there)
        return pushes

    def bound(self, boxes: int) -> int:
        """Return a lower bound on the pushes that solve these boxes; `FAR` or more means that they are lost.

        The cheapest assignment of boxes to targets by their distances in the empty room.
        """
        rows = [[distances[cell] for distances in self.distances] for cell in cells_of(boxes)]
        if len(rows) > MATCHED_BOXES:
            return sum(min(row) for row in rows)
        return _matching(rows)

    def freezes(self, boxes: int, cell: int) -> bool:
        """Tell whether the box on `cell` can never move again and leaves a box off target that way."""
        chain = self._frozen(boxes, cell, 0)
        return bool(chain & ~self.target_bits)

    def _frozen(self, boxes: int, cell: int, taken: int) -> int:
        """Return the boxes that hold each other fast around `cell`, or 0 if this box may move.

        `taken` are boxes already under examination: they count as walls, since whichever of them moved first
        would need one of the others gone.
        """
        taken |= 1 << cell
        chain = 1 << cell
        for delta in (1, self.stride):
            support = self._support(boxes, cell, delta, taken)
            if support < 0:
                return 0
            chain |= support
        return chain

    def _support(self, boxes: int, cell: int, delta: int, taken: int) -> int:
        """Return what keeps a box from moving along an axis: boxes, 0 for walls or lost cells, -1 for nothing."""
        sides = (cell - delta, cell + delta)
        solid = ~self.floor | taken
        if any(solid >> side & 1 for side in sides) or not any(self.live >> side & 1 for side in sides):
            return 0
        for side in sides:
            if boxes >> side & 1:
                chain = self._frozen(boxes, side, taken)
                if chain:
                    return chain
        return -1

    def lost(self, boxes: int, pushed: int) -> bool:
        """Tell whether a push to the cell `pushed` made the level unsolvable for a reason that is cheap to see."""
        return not self.live >> pushed & 1 or self.freezes(boxes, pushed) or self.bound(boxes) >= FAR


def cells_of(bits: int) -> list[int]:
    """List the cells of a set, lowest first."""
    cells = []
    while bits:
        lowest = bits & -bits
        cells.append(lowest.bit_length() - 1)
        bits ^= lowest
    return cells


def _matching(rows: Sequence[Sequence[int]]) -> int:
    """Cheapest assignment of rows to columns, over the subsets of used columns."""
    costs = {0: 0}
    for row in rows:
        options = [(1 << column, cost) for column, cost in enumerate(row) if cost < FAR]
        following: dict[int, int] = {}
        for used, cost in costs.items():
            for column, more in options:
                if not used & column:
                    key = used | column
                    if cost + more < following.get(key, FAR):
                        following[key] = cost + more
        costs = following
    return min(costs.values(), default=FAR)


@lru_cache(maxsize=1024)
def board_of(fixed: bytes, stride: int) -> Board:
    """Return the board of a level; episodes on the same level share it."""
    return Board(fixed, stride)
