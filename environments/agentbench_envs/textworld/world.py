"""Worlds under construction: rooms on a grid, doors between them, things in them; and when two worlds are the same.

Two worlds have the same shape if one becomes the other by renaming things and by turning or mirroring the map. Splits
go by shape, whatever the quest and the names: a test game plays in no world that a training game plays in.
"""

import hashlib
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from agentbench_envs.textworld.logic import Atom
from agentbench_envs.textworld.names import BY_KIND, LOOKS

WAYS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
BACK = {"north": "south", "east": "west", "south": "north", "west": "east"}
OF = {"north": "north_of", "west": "west_of"}

ROUNDS = 3
"""Rounds of colour refinement; worlds that differ only farther away count as the same, which is safe for splits."""


class World:
    """Rooms and things as facts.

    Args:
        rng: Decides everything that is drawn.
        nouns: Nouns for each type.
    """

    def __init__(self, rng: np.random.Generator, nouns: dict[str, tuple[str, ...]] = BY_KIND) -> None:
        self.rng, self.nouns = rng, nouns
        self.facts: set[Atom] = set()
        self.kinds: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        """What examining a thing tells beyond the ordinary."""
        self.doors: list[tuple[str, str]] = []
        """Pairs of neighbouring rooms, in the order of building."""
        self._cells: dict[tuple[int, int], str] = {}

    def new(self, kind: str, name: str | None = None) -> str:
        """Make a thing, with a name of its own; return its id."""
        entity = f"{kind}_{sum(other == kind for other in self.kinds.values())}"
        self.kinds[entity] = kind
        self.names[entity] = name or self._name(kind)
        return entity

    def _name(self, kind: str) -> str:
        taken = set(self.names.values())
        nouns = self.nouns[kind]
        free = [noun for noun in nouns if noun not in taken and (kind != "k" or nouns is not BY_KIND["k"])]
        if free:
            return self.pick(free)
        looks = [f"{look} {noun}" for noun in nouns for look in LOOKS if f"{look} {noun}" not in taken]
        return self.pick(looks) if looks else f"{nouns[0]} {len(taken)}"

    def pick(self, choices: Sequence[str]) -> str:
        """Draw one."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        """Draw yes or no."""
        return bool(self.rng.random() < probability)

    def of(self, *kinds: str) -> list[str]:
        """Return the things of these types."""
        return [entity for entity, kind in self.kinds.items() if kind in kinds]

    def say(self, name: str, *arguments: str) -> None:
        """Add a fact."""
        self.facts.add(Atom(name, arguments))

    def room(self, name: str | None = None, cell: tuple[int, int] = (0, 0)) -> str:
        """Build a room on a cell of the grid."""
        room = self.new("r", name)
        self._cells[cell] = room
        return room

    def grow(self, rooms: int, *, loops: float = 0.2) -> None:
        """Build rooms beside each other at random, all connected; `loops` is the chance of a further passage."""
        self.room()
        while len(self._cells) < rooms:
            cell = list(self._cells)[int(self.rng.integers(len(self._cells)))]
            way = self.pick(list(WAYS))
            beside = (cell[0] + WAYS[way][0], cell[1] + WAYS[way][1])
            if beside in self._cells:
                if self.chance(loops) and (self._cells[cell], self._cells[beside]) not in self.doors:
                    self.connect(self._cells[cell], way, self._cells[beside])
                continue
            self.connect(self._cells[cell], way, self.room(cell=beside))

    def connect(self, here: str, way: str, there: str, door: str | None = None, state: str = "open") -> None:
        """Join two rooms, through a door that is open, closed or locked, or by an open passage."""
        if (there, here) in self.doors or (here, there) in self.doors:
            return
        self.doors.append((here, there))
        first, second = (there, here) if way in OF else (here, there)
        self.say(OF.get(way) or OF[BACK[way]], first, second)
        if door is not None:
            self.say("link", here, door, there)
            self.say("link", there, door, here)
            self.say(state, door)
        if door is None or state == "open":
            self.say("free", here, there)
            self.say("free", there, here)

    def hang(self, here: str, there: str, state: str) -> str:
        """Put a door into an open passage."""
        door = self.new("d")
        self.say("link", here, door, there)
        self.say("link", there, door, here)
        self.say(state, door)
        if state != "open":
            self.facts -= {Atom("free", (here, there)), Atom("free", (there, here))}
        return door

    def put(self, thing: str, place: str) -> None:
        """Put a thing into a room or a container, on a supporter, or into the inventory."""
        kind = self.kinds.get(place, place)
        name = {"r": "at", "s": "on", "stove": "on", "c": "in", "oven": "in", "I": "in"}[kind]
        self.say(name, thing, place)

    def rooms_reached(self, start: str) -> set[str]:
        """Return the rooms that can be walked to without opening anything."""
        reached, waiting = {start}, [start]
        while waiting:
            here = waiting.pop()
            for fact in self.facts:
                if fact.name == "free" and fact.arguments[0] == here and fact.arguments[1] not in reached:
                    reached.add(fact.arguments[1])
                    waiting.append(fact.arguments[1])
        return reached

    def shape(self) -> str:
        """Return a hash that is equal for worlds of the same shape."""
        return shape(self.facts, self.kinds)


def shape(facts: set[Atom], kinds: dict[str, str]) -> str:
    """Return a hash that renaming things, and turning or mirroring the map, does not change.

    Colour refinement (Weisfeiler and Leman 1968) over the facts. Of the map it sees which rooms are neighbours and
    which two neighbours of a room lie opposite each other; both survive every symmetry of the grid.
    """
    plain = [fact for fact in facts if fact.name not in ("north_of", "west_of")] + _joints(facts)
    touching: dict[str, list[tuple[int, Atom]]] = {entity: [] for entity in kinds}
    for fact in plain:
        for at, entity in enumerate(fact.arguments):
            if entity in touching:
                touching[entity].append((at, fact))
    order = {kind: number for number, kind in enumerate(sorted(set(kinds.values())))}
    colours = {entity: order[kind] for entity, kind in kinds.items()}
    seen: list[object] = [list(order)]
    for _ in range(ROUNDS):
        signs = {
            entity: (
                colours[entity],
                tuple(sorted((fact.name, at, *(colours.get(a, -1) for a in fact.arguments)) for at, fact in touched)),
            )
            for entity, touched in touching.items()
        }
        rank = {sign: number for number, sign in enumerate(sorted(set(signs.values())))}
        colours = {entity: rank[sign] for entity, sign in signs.items()}
        seen.append((list(rank), sorted(colours.values())))
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def _joints(facts: set[Atom]) -> list[Atom]:
    """Return which rooms are neighbours, and which two neighbours of a room lie opposite each other."""
    beside: dict[str, dict[str, str]] = {}
    for fact in facts:
        if fact.name in ("north_of", "west_of"):
            way = fact.name.removesuffix("_of")
            there, here = fact.arguments
            beside.setdefault(here, {})[way] = there
            beside.setdefault(there, {})[BACK[way]] = here
    joints = []
    for here, around in beside.items():
        joints += [Atom("beside", (here, there)) for there in around.values()]
        for one, other in combinations(around, 2):
            if BACK[one] == other:
                joints += [
                    Atom("opposite", (here, *pair))
                    for pair in ((around[one], around[other]), (around[other], around[one]))
                ]
    return joints
