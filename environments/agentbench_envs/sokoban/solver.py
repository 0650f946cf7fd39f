"""Optimal solutions: fewest moves or fewest pushes, by A* over pushes.

A state is (boxes, player); an edge is one push with the shortest walk before it, so positions between pushes are never
stored. The estimate is the cheapest assignment of boxes to targets (`Board.bound`): it never falls by more than one per
push, so it is consistent and the first solution taken from the queue is optimal. States that `Board` knows to be lost
are dropped. With fewest pushes as the goal, states that differ only by walking are one.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from agentbench.core.errors import AgentBenchError, Unsolvable
from agentbench_envs.sokoban.board import FAR, Board, cells_of

Goal = Literal["moves", "pushes"]

STATE_LIMIT = 1_000_000
"""States to expand before the search gives up."""


class SearchLimitError(AgentBenchError):
    """The search gave up; the level may well have a solution."""


class Solution(NamedTuple):
    """A way to win."""

    directions: list[int]
    """Per move 0 up, 1 down, 2 left, 3 right."""
    pushes: int
    optimal: bool
    """True: no solution has fewer moves (or pushes, if those were asked for)."""
    expanded: int
    """States expanded."""


State = tuple[int, int]
"""Boxes (as bits) and the player's cell."""


def solve(
    board: Board, boxes: int, player: int, *, goal: Goal = "moves", weight: int = 1, limit: int = STATE_LIMIT
) -> Solution:
    """Find a solution with the fewest moves or pushes.

    Args:
        board: Walls and targets.
        boxes: The cells of the boxes, as bits.
        player: The cell of the player.
        goal: What is counted.
        weight: 1 is optimal; above, the estimate counts that much more, which is faster and at most that much longer.
        limit: States to expand.

    Raises:
        Unsolvable: There is no solution; this is proven.
        SearchLimitError: There may be one, but not within `limit` states.
    """
    return _Search(board, goal, weight).run((boxes, player), limit)


class _Search:
    def __init__(self, board: Board, goal: Goal, weight: int) -> None:
        self.board = board
        self.by_moves = goal == "moves"
        self.weight = weight
        self.bounds: dict[int, int] = {}
        self.costs: dict[State, int] = {}
        self.parents: dict[State, State] = {}
        self.queue: list[list[tuple[int, State]]] = []
        """States with their cost, by estimated total; the newest of a total goes first."""

    def run(self, start: State, limit: int) -> Solution:
        self.bounds[start[0]] = self.board.bound(start[0])
        self._offer(start, 0)
        closed: set[State] = set()
        for cost, state in self._best_first():
            if state[0] == self.board.target_bits:
                return self._solution(state, len(closed))
            key = state if self.by_moves else self._normalised(state)
            if key in closed:
                continue
            if len(closed) >= limit:
                raise SearchLimitError(f"no solution within {limit} states; there may be one")
            closed.add(key)
            for walk, following in self._pushes(*state):
                self._offer(following, cost + (walk + 1 if self.by_moves else 1), state)
        raise Unsolvable("no sequence of moves solves this level")

    def _best_first(self) -> Iterator[tuple[int, State]]:
        total = 0
        while total < len(self.queue):
            if self.queue[total]:
                yield self.queue[total].pop()
                # With a weight the estimate may fall, and a cheaper state may have come in.
                total = max(0, total - self.weight) if self.weight > 1 else total
            else:
                total += 1

    def _offer(self, state: State, cost: int, parent: State | None = None) -> None:
        if cost >= self.costs.get(state, FAR):
            return
        bound = self.bounds[state[0]]
        if bound >= FAR:
            return
        self.costs[state] = cost
        if parent is not None:
            self.parents[state] = parent
        total = cost + self.weight * bound
        while len(self.queue) <= total:
            self.queue.append([])
        self.queue[total].append((cost, state))

    def _pushes(self, boxes: int, player: int) -> list[tuple[int, State]]:
        """Return every sensible push and the steps before it, walking breadth first to all places at once."""
        board = self.board
        floor = board.floor & ~boxes
        room = board.live & ~boxes
        places = [_back(boxes & _back(room, delta), delta) & floor for delta in board.deltas]
        wanted = places[0] | places[1] | places[2] | places[3]
        stride = board.stride
        found: list[tuple[int, State]] = []
        frontier = 1 << player
        walk = 0
        while frontier and wanted:
            if frontier & wanted:
                wanted &= ~frontier
                for delta, place in zip(board.deltas, places, strict=True):
                    found += [(walk, self._pushed(boxes, cell, delta)) for cell in cells_of(frontier & place)]
            floor &= ~frontier
            frontier = (frontier << 1 | frontier >> 1 | frontier << stride | frontier >> stride) & floor
            walk += 1
        return found

    def _pushed(self, boxes: int, cell: int, delta: int) -> State:
        box = cell + delta
        there = box + delta
        after = boxes ^ (1 << box | 1 << there)
        if after not in self.bounds:
            self.bounds[after] = FAR if self.board.freezes(after, there) else self.board.bound(after)
        return after, box

    def _normalised(self, state: State) -> State:
        """Stand for the player by the first cell that they can reach."""
        boxes, player = state
        reached = reachable(self.board, boxes, player)
        return boxes, reached & -reached

    def _solution(self, state: State, expanded: int) -> Solution:
        states = [state]
        while state in self.parents:
            state = self.parents[state]
            states.append(state)
        directions: list[int] = []
        for here, there in pairwise(reversed(states)):
            directions += _walk_and_push(self.board, here, there)
        return Solution(directions, len(states) - 1, self.weight == 1, expanded)


def reachable(board: Board, boxes: int, player: int) -> int:
    """Return the cells that the player can walk to without a push."""
    floor = board.floor & ~boxes
    stride = board.stride
    reached = frontier = 1 << player
    while frontier:
        floor &= ~frontier
        frontier = (frontier << 1 | frontier >> 1 | frontier << stride | frontier >> stride) & floor
        reached |= frontier
    return reached


def _back(cells: int, delta: int) -> int:
    """Return the cells from which one step along `delta` leads into `cells`."""
    return cells >> delta if delta > 0 else cells << -delta


def _walk_and_push(board: Board, here: State, there: State) -> list[int]:
    """Spell an edge of the search out: the shortest walk to the box that moved, and the push."""
    boxes, player = here
    box = there[1]
    (target,) = cells_of(there[0] & ~boxes)
    way = board.deltas.index(target - box)
    return [*walk(board, boxes, player, 2 * box - target), way]


def walk(board: Board, boxes: int, player: int, goal: int) -> list[int]:
    """Return the ways of a shortest walk around the boxes.

    Raises:
        Unsolvable: There is no such walk.
    """
    came: dict[int, int] = {player: -1}
    queue = [player]
    for cell in queue:
        if cell == goal:
            break
        for way, delta in enumerate(board.deltas):
            there = cell + delta
            if there not in came and (board.floor & ~boxes) >> there & 1:
                came[there] = way
                queue.append(there)
    if goal not in came:
        raise Unsolvable("the player cannot walk there")
    ways: list[int] = []
    while goal != player:
        ways.append(came[goal])
        goal -= board.deltas[came[goal]]
    return ways[::-1]
