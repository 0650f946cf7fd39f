"""Slow and obvious counterparts of what the package does fast."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from agentbench_envs.sokoban.levels import Level, parse
from hypothesis import strategies as st

Cell = tuple[int, int]
WAYS: tuple[Cell, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Position(NamedTuple):
    player: Cell
    boxes: frozenset[Cell]


class Puzzle(NamedTuple):
    start: Position
    floor: frozenset[Cell]
    targets: frozenset[Cell]

    def after(self, here: Position) -> Iterator[tuple[Position, bool]]:
        """Yield every position one move further, and whether the move was a push."""
        for down, right in WAYS:
            there = (here.player[0] + down, here.player[1] + right)
            beyond = (there[0] + down, there[1] + right)
            if there in here.boxes:
                if beyond in self.floor and beyond not in here.boxes:
                    yield Position(there, here.boxes - {there} | {beyond}), True
            elif there in self.floor:
                yield Position(there, here.boxes), False


def puzzle(level: Level) -> Puzzle:
    lines = level.xsb.split("\n")
    cells = {(row, column): glyph for row, line in enumerate(lines) for column, glyph in enumerate(line)}
    (player,) = (cell for cell, glyph in cells.items() if glyph in "@+")
    return Puzzle(
        Position(player, frozenset(cell for cell, glyph in cells.items() if glyph in "$*")),
        frozenset(cell for cell, glyph in cells.items() if glyph != "#"),
        frozenset(cell for cell, glyph in cells.items() if glyph in ".+*"),
    )


def fewest(level: Level, *, count_moves: bool) -> int | None:
    """Search all positions for the least number of moves (or pushes); None if no position is solved."""
    game = puzzle(level)
    costs = {game.start: 0}
    queue = deque([game.start])
    best = None
    while queue:
        here = queue.popleft()
        if here.boxes == game.targets:
            best = costs[here] if best is None else min(best, costs[here])
        for there, is_push in game.after(here):
            cost = costs[here] + (1 if count_moves or is_push else 0)
            if cost < costs.get(there, 10**9):
                costs[there] = cost
                queue.append(there)
    return best


@st.composite
def small_levels(draw: st.DrawFn, boxes: int = 2) -> Level:
    """Draw levels of at most 4 x 4 cells inside, solvable or not."""
    rows, columns = draw(st.integers(2, 4)), draw(st.integers(3, 4))
    inside = [(row, column) for row in range(rows) for column in range(columns)]
    free = draw(st.permutations(inside))
    count = draw(st.integers(1, boxes))
    player, targets = free[0], set(free[1 : 1 + count])
    crates = set(draw(st.permutations([cell for cell in inside if cell != player]))[:count])
    walls = set(draw(st.lists(st.sampled_from(inside), max_size=4))) - targets - crates - {player}
    grid = [["#"] * (columns + 2) for _ in range(rows + 2)]
    for row, column in inside:
        cell = (row, column)
        glyph = "#" if cell in walls else "." if cell in targets else " "
        if cell in crates:
            glyph = "*" if cell in targets else "$"
        grid[row + 1][column + 1] = "@" if cell == player else glyph
    return parse("\n".join("".join(line) for line in grid))


class Reversed(NamedTuple):
    score: int
    player: Cell
    boxes: dict[Cell, Cell]
    """Where the box of each target stands."""


class ReversePlay:
    """The originals' reverse play as they describe it: recursive, with copies of everything."""

    def __init__(self, floor: frozenset[Cell], *, leave_boxes: bool, cap: int) -> None:
        self.floor = floor
        self.leave_boxes = leave_boxes
        self.cap = cap
        self.seen: set[tuple[Cell, frozenset[tuple[Cell, bool]]]] = set()
        self.best = Reversed(-1, (0, 0), {})

    def explore(
        self, player: Cell, boxes: dict[Cell, Cell], pulled: frozenset[Cell], swaps: int, last: Cell | None, depth: int
    ) -> None:
        """Visit a state. `boxes` maps targets to boxes, `pulled` are the targets whose box was pulled before."""
        key = (player, frozenset((box, target in pulled) for target, box in boxes.items()))
        if depth <= 1 or len(self.seen) >= self.cap or key in self.seen:
            return
        self.seen.add(key)
        covered = {player, *boxes.values()} & set(boxes)
        moved = sum(abs(box[0] - target[0]) + abs(box[1] - target[1]) for target, box in boxes.items())
        score = 0 if covered else swaps * moved
        if score > self.best.score:
            self.best = Reversed(score, player, boxes)
        for pull in (True, False) if self.leave_boxes else (True,):
            for down, right in WAYS:
                there = (player[0] + down, player[1] + right)
                if there not in self.floor or there in boxes.values():
                    continue
                behind = (player[0] - down, player[1] - right)
                target = next((target for target, box in boxes.items() if box == behind), None)
                if pull and target is not None:
                    more = swaps + (1 if self.leave_boxes or target != last else 0)
                    after = boxes | {target: player}
                    self.explore(there, after, pulled | {target}, more, target, depth - 1)
                else:
                    self.explore(there, boxes, pulled, swaps, last, depth - 1)
