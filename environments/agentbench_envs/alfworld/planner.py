"""Shortest plans: A* over what matters for one way to win, tried for each way that could be the shortest.

Of a whole room, a plan needs little: where the player is, what it holds, where the objects of one alternative of the
goal lie, which of their receptacles are open, and which treatments they had. Every action costs one turn. The
estimate counts turns that no plan can save: each object still to be taken and put, each treatment still to be given,
each closed receptacle on the way, each place that has to be visited. It never overestimates, so the plans are
shortest; alternatives that cannot beat the best plan so far are not searched.
"""

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple

from agentbench.core.errors import Unsolvable
from agentbench_envs.alfworld.game import APPLIANCES, OPPOSITE, Action, State, World
from agentbench_envs.alfworld.goal import Alternative
from agentbench_envs.alfworld.pddl import Fact

MOST_NODES: Final = 50_000
"""Expansions after which the search is given up; the scenes and the recorded games need far fewer."""

_MAKES: Final = {made: verb for verb, (_, _, made) in APPLIANCES.items()}
"""The treatment that makes something true."""

_KNOWN: Final = frozenset(("atlocation", "holds", "inreceptacle", "istoggled", *_MAKES))
"""Predicates in goals that this planner knows; the original's games have no others."""


class Node(NamedTuple):
    """What matters of a state."""

    location: str
    held: str | None
    places: tuple[str, ...]
    """The receptacle of each object of interest; empty while it is held."""
    opened: frozenset[str]
    marks: frozenset[tuple[str, str]]
    """Treatments of objects of interest: `("isclean", "mug_bar_1")`."""


class Planner:
    """Plans for one room.

    Args:
        world: The room; only its goal decides what is prepared here.
    """

    def __init__(self, world: World) -> None:
        self.routes = [Route(world, goal) for goal in world.goals if set(map(_predicate, goal)) <= _KNOWN]

    def plan(self, state: State) -> list[Action]:
        """Return a shortest plan from a state.

        Raises:
            Unsolvable: There is none, or the search ran out of its budget.
        """
        inside = {thing: receptacle for receptacle, things in state.contents.items() for thing in things}
        opened = frozenset(fact[1] for fact in state.facts if fact[0] == "opened")
        starts = [(route, route.start(state, inside, opened)) for route in self.routes]
        hopeful = [
            (route.bound(node), number, route, node)
            for number, (route, node) in enumerate(starts)
            if route.possible(node)
        ]
        best: list[Action] | None = None
        budget = iter(range(MOST_NODES))
        for bound, _, route, node in sorted(hopeful, key=lambda one: one[:2]):
            if best is not None and bound >= len(best):
                break
            found = route.search(node, None if best is None else len(best), budget)
            best = best if found is None else found
        if best is None:
            raise Unsolvable("no plan reaches the goal from here, or none was found within the planner's budget")
        return best


class Route:
    """One way to win, and the search for it.

    Args:
        world: The room.
        goal: One alternative of its goal.
    """

    def __init__(self, world: World, goal: Alternative) -> None:
        self.world = world
        self.target = {fact[1]: fact[2] for fact in goal if fact[0] == "inreceptacle"}
        self.hold = next((fact[2] for fact in goal if fact[0] == "holds"), None)
        self.end = next((fact[2] for fact in goal if fact[0] == "atlocation"), None)
        self.needed = frozenset((fact[0], fact[1]) for fact in goal if len(fact) == 2)
        things = {*self.target, *(thing for _, thing in self.needed), *filter(None, [self.hold])}
        self.things = tuple(sorted(things))
        self.appliances = {
            (made, thing): tuple(rec for rec in world.receptacles if world.treats(_MAKES[made], thing, rec))
            for made, thing in self.needed
            if made in _MAKES
        }
        self.treatments = {
            mark: frozenset(world.location_of[rec] for rec in found) for mark, found in self.appliances.items()
        }
        homes = {world.location_of.get(receptacle, "") for receptacle in self.target.values()}
        self.carries_only = len(homes) == 1 and not self.needed and self.hold is None and self.end is None

    def start(self, state: State, inside: dict[str, str], opened: frozenset[str]) -> Node:
        """Return what matters of a state."""
        marks = frozenset((made, thing) for made, thing in self.needed if (made, thing) in state.facts)
        places = tuple(inside.get(thing, "") for thing in self.things)
        return Node(state.location, state.held, places, opened, marks)

    def possible(self, node: Node) -> bool:
        """Tell whether nothing that never changes stands between this state and the goal."""
        world = self.world
        for thing, place in zip(self.things, node.places, strict=True):
            target = self.target.get(thing)
            if place == "" and node.held != thing:
                return False
            if target not in (None, place) and not world.fits(thing, str(target)):
                return False
            if self._taken(node, thing, place) and ("pickupable", thing) not in world.fixed:
                return False
        return all(self.treatments.get(mark, True) for mark in self.needed - node.marks)

    def _taken(self, node: Node, thing: str, place: str) -> bool:
        """Tell whether a thing must be picked up, or picked up again, before the goal holds."""
        if place == "":
            return False
        if thing == self.hold or self.target.get(thing, place) != place:
            return True
        return any(mark[1] == thing and mark not in node.marks for mark in self.treatments)

    def relevant(self, node: Node) -> frozenset[str]:
        """Return the receptacles that a shortest plan from here may visit."""
        world = self.world
        found = {*node.places, *self.target.values(), *world.at.get(self.end or "", ())}
        found.update(rec for mark in self.needed - node.marks for rec in self.appliances.get(mark, ()))
        if node.held is not None and node.held not in self.target:
            found.update(rec for rec in world.receptacles if world.fits(node.held, rec))
        return frozenset(found & world.location_of.keys())

    def search(self, start: Node, limit: int | None, budget: Iterator[int]) -> list[Action] | None:
        """Return a shortest plan, if there is one shorter than the limit; every expansion takes one from the budget."""
        relevant = sorted(self.relevant(start))
        numbers = count()
        frontier = [(self.bound(start), next(numbers), 0, start)]
        came: dict[Node, tuple[Node, Action] | None] = {start: None}
        cost = {start: 0}
        for _ in budget:
            if not frontier:
                return None
            estimate, _, spent, node = heapq.heappop(frontier)
            if limit is not None and estimate >= limit:
                return None
            if spent > cost[node]:
                continue
            if self.won(node):
                return self._path(node, came)
            for action, then in self.successors(node, relevant):
                if spent + 1 < cost.get(then, spent + 2):
                    cost[then] = spent + 1
                    came[then] = (node, action)
                    heapq.heappush(frontier, (spent + 1 + self.bound(then), next(numbers), spent + 1, then))
        return None

    def _path(self, node: Node, came: dict[Node, tuple[Node, Action] | None]) -> list[Action]:
        actions: list[Action] = []
        step = came[node]
        while step is not None:
            node, action = step
            actions.append(action)
            step = came[node]
        return actions[::-1]

    def won(self, node: Node) -> bool:
        """Tell whether the goal holds."""
        places = zip(self.things, node.places, strict=True)
        return (
            self.needed <= node.marks
            and (self.hold is None or node.held == self.hold)
            and (self.end is None or node.location == self.end)
            and all(self.target.get(thing, place) == place for thing, place in places)
        )

    def bound(self, node: Node) -> int:
        """Return a number of turns that no plan from here goes below; 0 only where the goal holds."""
        world = self.world
        missing = self.needed - node.marks
        turns = len(missing)
        visited: set[str] = set()
        taking = False
        for thing, place in zip(self.things, node.places, strict=True):
            target = self.target.get(thing)
            taken = self._taken(node, thing, place)
            if taken:
                taking = True
                turns += 1
                visited.add(place)
            if target is not None and (taken or place != target):
                turns += 1
                visited.add(target)
        if taking and node.held is not None and node.held not in self.target:
            turns += 1  # What is held and belongs nowhere must be put down somewhere.
        turns += len(visited & world.openable - node.opened)
        return turns + (self._trips(node, visited) if self.carries_only else self._walks(node, visited, missing))

    def _trips(self, node: Node, visited: set[str]) -> int:
        """Return the fewest walks where things are only carried to one place: with one hand, there and back."""
        location_of = self.world.location_of
        (there,) = {location_of.get(receptacle, "") for receptacle in self.target.values()}
        sources = [
            location_of.get(place, "")
            for thing, place in zip(self.things, node.places, strict=True)
            if place not in ("", self.target[thing])
        ]
        away = [location for location in sources if location != there]
        if node.held in self.target:
            return 2 * len(away) + (node.location != there)
        if away:
            return 2 * len(away) - (node.location in away)
        return int(bool(visited) and node.location != there)

    def _walks(self, node: Node, visited: set[str], missing: frozenset[tuple[str, str]]) -> int:
        """Return how many other locations must be seen at least once."""
        places = {self.world.location_of.get(receptacle, "") for receptacle in visited}
        places.update(self._place(node, thing) for made, thing in missing if made == "istoggled")
        if self.end is not None:
            places.add(self.end)
        places.discard(node.location)
        for mark, there in self.treatments.items():
            if mark in missing and node.location not in there and places.isdisjoint(there):
                return len(places) + 1
        return len(places)

    def _place(self, node: Node, thing: str) -> str:
        return self.world.location_of.get(node.places[self.things.index(thing)], "")

    def successors(self, node: Node, relevant: list[str]) -> Iterator[tuple[Action, Node]]:
        """Yield the actions that may be part of a shortest plan, with what they lead to."""
        world = self.world
        seen = {node.location}
        for receptacle in relevant:
            location = world.location_of[receptacle]
            if location not in seen:
                seen.add(location)
                yield Action("go", receptacle), node._replace(location=location)
            if location == node.location:
                yield from self._at(node, receptacle)
        for made, thing in sorted(self.needed - node.marks):
            usable = made == "istoggled" and ("toggleable", thing) in world.fixed
            if usable and self._place(node, thing) == node.location:
                yield Action("use", thing), node._replace(marks=node.marks | {(made, thing)})

    def _at(self, node: Node, receptacle: str) -> Iterator[tuple[Action, Node]]:
        world, held = self.world, node.held
        if receptacle in world.openable and receptacle not in node.opened:
            yield Action("open", receptacle), node._replace(opened=node.opened | {receptacle})
        elif held is None:
            for index, thing in enumerate(self.things):
                if node.places[index] == receptacle and ("pickupable", thing) in world.fixed:
                    yield (
                        Action("take", thing, receptacle),
                        node._replace(held=thing, places=self._placed(node, thing, "")),
                    )
        elif world.fits(held, receptacle):
            yield Action("put", held, receptacle), node._replace(held=None, places=self._placed(node, held, receptacle))
        if held is not None:
            for made, thing in sorted(self.needed - node.marks):
                if thing == held and made in _MAKES and world.treats(_MAKES[made], held, receptacle):
                    marks = (node.marks | {(made, held)}) - {(OPPOSITE.get(made, ""), held)}
                    yield Action(_MAKES[made], held, receptacle), node._replace(marks=marks)

    def _placed(self, node: Node, thing: str, place: str) -> tuple[str, ...]:
        if thing not in self.things:
            return node.places
        index = self.things.index(thing)
        return (*node.places[:index], place, *node.places[index + 1 :])


def _predicate(fact: Fact) -> str:
    return fact[0]
