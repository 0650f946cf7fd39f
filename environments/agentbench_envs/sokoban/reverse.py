"""Reverse play: from the solved room, pull boxes away from their targets and keep the best state seen.

Both originals explore (player, boxes) depth first, in a fixed order of actions, at most `STATE_CAP` states and a
limited depth, and keep the first state with the highest score. The outcome depends on the order of exploration, so
nothing may be pruned; the speed comes from the representation instead:

* only floor cells have numbers, and a *layout* (where the boxes are, and which were never pulled) is one integer;
* the player's cells seen under a layout are one bytearray, so a step of the player is two look-ups;
* what the player can do on a cell depends only on which of its four neighbours hold boxes: sixteen tuples per cell;
* a pull changes the layout and the neighbour patterns by exclusive or with constants.

Sources: gym-sokoban 0.0.6 ``room_utils.depth_first_search`` and RAGEN 5eb79b8 ``sokoban/utils.py``.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

STATE_CAP = 300_000
"""States after which the originals stop looking."""

OPPOSITE = (1, 0, 3, 2)
"""Directions are up, down, left, right; this is the way back."""


class Pull(NamedTuple):
    """One way to pull a box: the player steps from `here` to `there`, the box follows from `behind` to `here`."""

    there: int
    here: int
    behind: int
    layout: int
    """Bits of the layout that change."""
    kept: int
    """All bits of the layout but the one that says that the box on `behind` was never pulled."""
    patterns: int
    """Bits of the neighbour patterns that change (one byte per cell)."""


class Played(NamedTuple):
    """The best state of a reverse play."""

    player: int
    boxes: list[int]
    """Cell of the box that belongs to each target, in the order of the targets."""
    score: int
    displacement: int
    """Sum of the Manhattan distances of the boxes from their targets."""


class _Moves(NamedTuple):
    """What the player can do, by cell and by pattern of neighbouring boxes."""

    choices: list[list[tuple[int, ...]]]
    """Codes below the number of cells are steps to that cell; the others are indices into `pulls`."""
    pulls: list[Pull]


def _pattern_bits(neighbours: Sequence[Sequence[int]], box: int) -> int:
    """Bits that a box on cell `box` sets in the patterns of the cells around it."""
    return sum(1 << (8 * cell + OPPOSITE[way]) for way, cell in enumerate(neighbours[box]) if cell >= 0)


def _choices(around: Sequence[int], codes: dict[int, int], pattern: int, leave_boxes: bool) -> tuple[int, ...]:
    """List the actions on a cell in the original's order: pulls (or steps, where no box follows), then bare steps."""
    open_ways = [way for way in range(4) if around[way] >= 0 and not pattern >> way & 1]
    followed = [way for way in open_ways if way in codes and pattern >> OPPOSITE[way] & 1]
    first = tuple(codes[way] if way in followed else around[way] for way in open_ways)
    return first + tuple(around[way] for way in followed) if leave_boxes else first


def _tabulate(neighbours: Sequence[Sequence[int]], leave_boxes: bool) -> _Moves:
    cells = len(neighbours)
    bits = [_pattern_bits(neighbours, cell) for cell in range(cells)]
    pulls = [Pull(-1, -1, -1, 0, 0, 0)] * cells
    choices = []
    for here, around in enumerate(neighbours):
        codes = {}
        for way in range(4):
            there, behind = around[way], around[OPPOSITE[way]]
            if there >= 0 and behind >= 0:
                codes[way] = len(pulls)
                kept = ~(1 << (behind + cells))
                pulls.append(Pull(there, here, behind, 1 << here | 1 << behind, kept, bits[here] ^ bits[behind]))
        choices.append([_choices(around, codes, pattern, leave_boxes) for pattern in range(16)])
    return _Moves(choices, pulls)


def reverse_play(
    neighbours: Sequence[Sequence[int]],
    distances: Sequence[Sequence[int]],
    player: int,
    targets: Sequence[int],
    *,
    depth: int,
    leave_boxes: bool,
) -> Played:
    """Explore backwards from the solved room and return the best state.

    Args:
        neighbours: per floor cell the cells up, down, left and right of it, -1 for a wall.
        distances: per target (in the order of `targets`) its Manhattan distance to every cell.
        player: start cell of the player.
        targets: cells of the targets; every box starts on its own.
        depth: the original's `ttl` or `search_depth`; paths have at most `depth - 2` actions.
        leave_boxes: True plays gym-sokoban's eight actions and scores pulls; False plays RAGEN's four, where a box
            behind the player always follows, and scores how often another box is pulled than the last time.
    """
    search = _Search(_tabulate(neighbours, leave_boxes), distances, targets, count_every_pull=leave_boxes)
    patterns = sum(_pattern_bits(neighbours, target) for target in targets)
    search.run(player, patterns, depth)
    return search.best()


class _Search:
    """Depth-first search that keeps the first state with the highest score."""

    def __init__(
        self, moves: _Moves, distances: Sequence[Sequence[int]], targets: Sequence[int], *, count_every_pull: bool
    ) -> None:
        self.choices, self.pulls = moves
        self.distances = distances
        self.targets = targets
        self.count_every_pull = count_every_pull
        cells = len(self.choices)
        self.covered = sum(1 << target for target in targets)
        self.layout = self.covered | self.covered << cells
        self.owners = [targets.index(cell) if cell in targets else -1 for cell in range(cells)]
        """Whose box stands on a cell; stale where there is none."""
        self.score = 0
        self.player = -1

    def _keep(self, score: int, player: int, layout: int, owners: Sequence[int]) -> None:
        self.score, self.player, self.layout, self.owners = score, player, layout, list(owners)

    def best(self) -> Played:
        """Spell the best state out."""
        boxes = [0] * len(self.targets)
        for cell in range(len(self.choices)):
            if self.layout >> cell & 1:
                boxes[self.owners[cell]] = cell
        displacement = sum(far[box] for far, box in zip(self.distances, boxes, strict=True))
        return Played(self.player, boxes, self.score, displacement)

    def run(self, player: int, patterns: int, depth: int) -> None:
        """Explore from the solved room. The top of the stack iterates over what is left to try in the present state."""
        choices, pulls, distances, covered = self.choices, self.pulls, self.distances, self.covered
        layout, owners, cells = self.layout, list(self.owners), len(choices)
        near = patterns.to_bytes(cells, "little")
        layouts = {layout: bytearray(cells)}
        seen = layouts[layout]
        seen[player] = 1
        self._keep(0, player, layout, owners)
        left, last, entered = STATE_CAP - 1, -1, 0
        swaps = moved = score = 0
        leaf: Iterator[int] = iter(())
        stack = [iter(choices[player][near[player]]) if depth > 2 else leaf]
        outer: list[tuple[int, int, int, int, int, int, int, int, int, bytearray, bytes]] = []
        while stack:
            for code in stack[-1]:
                if code < cells:
                    if seen[code]:
                        continue
                    player = code
                else:
                    player, here, behind, flips, kept, flipped = pulls[code]
                    layout_next = (layout ^ flips) & kept
                    seen_next = layouts.get(layout_next)
                    if seen_next is None:
                        seen_next = layouts[layout_next] = bytearray(cells)
                    elif seen_next[player]:
                        continue
                    owner = owners[behind]
                    outer.append((entered, layout, patterns, swaps, moved, score, last, behind, owner, seen, near))
                    entered = len(stack) + 1
                    layout, seen = layout_next, seen_next
                    patterns ^= flipped
                    near = patterns.to_bytes(cells, "little")
                    owners[here] = owner
                    swaps += self.count_every_pull or owner != last
                    last = owner
                    moved += distances[owner][here] - distances[owner][behind]
                    score = 0 if layout & covered else swaps * moved
                seen[player] = 1
                left -= 1
                if score > self.score and not covered >> player & 1:
                    self._keep(score, player, layout, owners)
                if not left:
                    return
                stack.append(iter(choices[player][near[player]]) if len(stack) < depth - 2 else leaf)
                break
            else:
                if len(stack) == entered:
                    entered, layout, patterns, swaps, moved, score, last, behind, owner, seen, near = outer.pop()
                    owners[behind] = owner
                stack.pop()
