"""Shortest plans: how far every position is from winning, over the few actions that can matter.

Nothing in these rules is forbidden by holding too much, so an action is only worth taking if something it brings about
is part of a goal, or lets another worthwhile action do more than take this one back. That drops what is not needed,
closes and locks nothing in vain, and leaves furniture, distractors and detours alone; some shortest plan is always
among the rest. (If a plan has an action that only enables its own undoing, it is valid and shorter without the two.)
What remains is small enough, hundreds of positions in most games, to know the exact distance of each.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from agentbench.core.errors import Unsolvable
from agentbench_envs.textworld.game import Game
from agentbench_envs.textworld.ground import Action, each_bit

MOST_POSITIONS = 50_000
"""Positions after which a search gives up; about two seconds."""

Position = tuple[int, int]
"""The facts that plans can use, and the quests that are done."""


class Planner:
    """Plans of one game; what was found once is kept."""

    def __init__(self, game: Game) -> None:
        self.game = game
        useful = _useful(game)
        relevant = game.scene.anywhere
        for action in useful.values():
            relevant |= action.before | action.add | action.delete | game.scene.kitchen.demands(action)
        for goal in game.goals:
            for mask in (*goal.wins, *goal.fails):
                relevant |= mask
        self.relevant = (
            relevant | game.scene.kitchen.unwanted | game.scene.kitchen.carried * (game.scene.kitchen.hands > 0)
        )
        here = game.scene.here.items()
        self.here = {room: [action for action in actions if id(action) in useful] for room, actions in here}
        self.distances: dict[Position, int | None] = {}

    def plan(self, state: int, done: int) -> list[Action]:
        """Return a shortest plan that wins from here.

        Args:
            state: The facts that hold, as bits.
            done: The quests that are done, as bits.

        Raises:
            Unsolvable: The game cannot be won from here, or the search ran out of its budget.
        """
        left = self.distance(state, done)
        if left is None:
            raise Unsolvable("the game cannot be won from here")
        position = (state & self.relevant, done)
        plan = []
        while left:
            left -= 1
            action, position = next(step for step in self.successors(position) if self.distances.get(step[1]) == left)
            plan.append(action)
        return plan

    def distance(self, state: int, done: int) -> int | None:
        """Return the length of a shortest plan from here; None if the game cannot be won any more.

        Raises:
            Unsolvable: The search ran out of its budget.
        """
        position = (state & self.relevant, done)
        if position not in self.distances:
            self._explore(position)
        return self.distances[position]

    def _explore(self, start: Position) -> None:
        """Find the distance of everything that can be reached from here, backwards from where games are won."""
        before: dict[Position, list[Position]] = {start: []}
        ends: list[tuple[int, Position]] = []
        waiting = [start]
        while waiting:
            position = waiting.pop()
            known = 0 if self.won(position) else self.distances.get(position)
            if known is not None:
                ends.append((known, position))
            elif position not in self.distances:
                for _, after in self.successors(position):
                    if after not in before:
                        before[after] = []
                        waiting.append(after)
                    before[after].append(position)
            if len(before) > MOST_POSITIONS:
                raise Unsolvable(f"no plan was found within {MOST_POSITIONS} positions; there may be one")
        found: dict[Position, int | None] = dict.fromkeys(before)
        heapify(ends)
        while ends:
            distance, position = heappop(ends)
            if found[position] is None:
                found[position] = distance
                for earlier in before[position]:
                    heappush(ends, (distance + 1, earlier))
        self.distances |= found

    def won(self, position: Position) -> bool:
        """Tell whether every quest that is needed is done."""
        needed = self.game.needed
        return position[1] & needed == needed

    def successors(self, position: Position) -> Iterator[tuple[Action, Position]]:
        """Yield the worthwhile actions and where they lead, but none that loses."""
        state, done = position
        for action in self.here[self.game.scene.room(state)]:
            if state & action.before == action.before and not self.game.scene.kitchen.refuses(action, state):
                after = state & ~action.delete | action.add
                judged = self._judge(after, done)
                if judged is not None:
                    yield action, (after, judged)

    def _judge(self, state: int, done: int) -> int | None:
        """Return the quests that are done in this state; None if the game is lost."""
        for k, goal in enumerate(self.game.goals):
            if done >> k & 1:
                continue
            for mask in goal.fails:
                if state & mask == mask:
                    return None
            for mask in goal.wins:
                if state & mask == mask and not goal.repeatable:
                    done |= 1 << k
        return done


def _useful(game: Game) -> dict[int, Action]:
    """Return the actions that a shortest plan may need, by their identity, working back from the goals."""
    adding = game.scene.adding
    goals = 0
    for k, goal in enumerate(game.goals):
        if game.needed >> k & 1:
            for mask in goal.wins:
                goals |= mask
    found = {id(action): action for bit in each_bit(goals) for action in adding.get(bit, ())}
    waiting = list(found.values())
    while waiting:
        user = waiting.pop()
        for bit in each_bit(user.before | game.scene.kitchen.demands(user)):
            for action in adding.get(bit, ()):
                takes_back = user.add & ~action.delete == 0
                if not takes_back and id(action) not in found:
                    found[id(action)] = action
                    waiting.append(action)
    return found
