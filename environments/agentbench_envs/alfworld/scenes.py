"""Our own rooms and tasks, drawn at a seed: the original's six kinds of task in furniture of our making.

A *template* is a kind of room with its receptacles in their places, one of a fixed list; a *scene* fills one with
objects and asks for something. Contents decide the split, not seeds: a hash of what receptacles there are sends one
template in five to `test-unseen` and nowhere else; the scenes of the others go to `train`, `valid` and `test-seen` by
a hash of everything in them, up to the numbering of equal things. A scene is drawn again until its split fits, and
until the planner has found a solution of the wanted length.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from agentbench.core.errors import Unsolvable, UsageError
from agentbench.core.seeding import generator
from agentbench_envs.alfworld.game import State, World
from agentbench_envs.alfworld.pddl import Fact, Problem, formula
from agentbench_envs.alfworld.planner import Planner
from agentbench_envs.alfworld.rooms import RECEPTACLES, ROOMS, THINGS, fits

SPLITS: Final = ("train", "valid", "test-seen", "test-unseen")

TASKS: Final = ("place", "examine", "clean", "heat", "cool", "gather")
"""The original's six: pick_and_place_simple, look_at_obj_in_light, pick_clean/heat/cool_then_place_in_recep and
pick_two_obj_and_place."""

SENTENCES: Final = {
    "place": ("put a {thing} in {place}", "put some {thing} on {place}"),
    "examine": ("look at {thing} under the {place}", "examine the {thing} with the {place}"),
    "clean": ("put a clean {thing} in {place}", "clean some {thing} and put it in {place}"),
    "heat": ("put a hot {thing} in {place}", "heat some {thing} and put it in {place}"),
    "cool": ("put a cool {thing} in {place}", "cool some {thing} and put it in {place}"),
    "gather": ("put {number} {thing} in {place}", "find {number} {thing} and put them in {place}"),
}
"""What the player is told; the original's phrases, so that its protocols carry over."""

NUMBERS: Final = ("", "one", "two", "three", "four", "five", "six")

_TREATMENT: Final = {"clean": ("cleanable", "isclean"), "heat": ("heatable", "ishot"), "cool": ("coolable", "iscool")}

_APPLIANCE: Final = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}

TEMPLATES: Final = 30
"""Templates of each kind of room, as many as the original has floor plans."""

MOST_DRAWS: Final = 3_000
"""Draws after which the settings are called impossible."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides a scene, together with the seed."""

    split: str = "train"
    tasks: tuple[str, ...] = TASKS
    rooms: tuple[str, ...] = tuple(ROOMS)
    receptacles: int = 16
    """Most receptacles of a room."""
    distractors: int = 12
    """Objects beyond those that the task is about."""
    copies: int = 1
    """Most objects of the wanted kind beyond those that are needed."""
    count: int = 2
    """Objects to bring together in a `gather` task; the original's two."""
    closed: float = 1.0
    """Share of the openable receptacles that are closed at the start."""
    shared: float = 0.1
    """Share of the receptacles that stand at the location of another one."""
    alike: bool = True
    """Whether a room may hold several receptacles or objects of one kind."""
    shortest: int = 1
    longest: int = 50
    """Bounds on the turns of a shortest solution."""

    def check(self) -> "Settings":
        """Return these settings if a scene can have them.

        Raises:
            UsageError: A value is out of its range.
        """
        _known("split", [self.split], SPLITS)
        _known("task", self.tasks, TASKS)
        _known("room", self.rooms, tuple(ROOMS))
        if not (3 <= self.receptacles <= 40 and 0 <= self.distractors <= 60 and 0 <= self.copies <= 10):
            raise UsageError("expected 3 to 40 receptacles, 0 to 60 distractors and 0 to 10 copies")
        if not 2 <= self.count <= len(NUMBERS) - 1:
            raise UsageError(f"found a count of {self.count}, expected 2 to {len(NUMBERS) - 1}")
        if not (0 <= self.closed <= 1 and 0 <= self.shared <= 1):
            raise UsageError("closed and shared are shares, expected numbers from 0 to 1")
        if self.longest < self.shortest:
            raise UsageError(f"longest ({self.longest}) is below shortest ({self.shortest})")
        return self


def _known(what: str, found: Iterable[str], known: tuple[str, ...]) -> None:
    for name in found:
        if name not in known:
            raise UsageError(f"found the {what} {name!r}, expected one of {', '.join(known)}")


class Layout(NamedTuple):
    """A template with its furniture in place."""

    room: str
    receptacles: tuple[tuple[str, str, str], ...]
    """Name, kind and location of each."""

    def of(self, kind: str) -> list[str]:
        """Return the receptacles of a kind."""
        return [name for name, own, _ in self.receptacles if own == kind]


class Order(NamedTuple):
    """What is asked for."""

    task: str
    thing: str
    place: str
    """The kind of receptacle, or of lamp."""


class Scene(NamedTuple):
    """A task to play."""

    world: World
    solution: int
    """Turns of a shortest solution."""
    content: str
    """A hash that is equal exactly for scenes that differ in nothing but numbering and wording."""


@lru_cache(maxsize=1024)
def draw_scene(settings: Settings, seed: int) -> Scene:
    """Return the scene of a seed.

    Raises:
        UsageError: No scene fits the settings.
    """
    rng = generator("alfworld scene", seed)
    for _ in range(MOST_DRAWS):
        room, number = str(rng.choice(settings.rooms)), int(rng.integers(TEMPLATES))
        layout = _layout(room, number, settings.receptacles, settings.shared, settings.alike)
        if layout is None or (_tenth(_template(layout)) < 2) != (settings.split == "test-unseen"):
            continue
        order = _order(settings, layout, rng)
        if order is None:
            continue
        things = _furnish(settings, layout, order, rng)
        content = _content(layout, things, order)
        if settings.split not in ("test-unseen", _split(content)):
            continue
        world = World(_problem(settings, layout, things, order, rng), _sentence(settings, order, rng))
        try:
            turns = len(Planner(world).plan(State.first(world)))
        except Unsolvable:
            continue
        if settings.shortest <= turns <= settings.longest:
            return Scene(world, turns, content)
    raise UsageError(f"none of {MOST_DRAWS:,} scenes fits {settings}; allow other lengths, tasks or rooms")


@lru_cache(maxsize=4096)
def _layout(room: str, number: int, most: int, shared: float, alike: bool) -> Layout | None:
    """Return one of the templates of a kind of room; None if its fewest receptacles are too many."""
    rng = generator("alfworld template", room, number)
    kinds: list[str] = []
    optional: list[str] = []
    for kind, (fewest, largest) in ROOMS[room].receptacles.items():
        count = int(rng.integers(fewest, (largest if alike else min(largest, 1)) + 1))
        kinds += [kind] * fewest
        optional += [kind] * (count - fewest)
    if len(kinds) > most:
        return None
    rng.shuffle(optional)
    kinds = sorted(kinds + optional[: most - len(kinds)])
    placed: list[tuple[str, str, str]] = []
    for index, kind in enumerate(kinds):
        alone = not placed or rng.random() >= shared
        location = f"loc_bar_{index + 1:02d}" if alone else placed[int(rng.integers(len(placed)))][2]
        placed.append((_name(kind, index), kind, location))
    return Layout(room, tuple(placed))


def _name(kind: str, number: int) -> str:
    """Name a receptacle; the original's basins belong to something else, and are called so by its text engine."""
    if kind.endswith("basin"):
        return f"{kind.removesuffix('basin')}_bar_{number:02d}_bar_{kind}"
    return f"{kind}_bar_{number:02d}"


def _order(settings: Settings, layout: Layout, rng: np.random.Generator) -> Order | None:
    """Draw what is asked for, if the room allows it."""
    task = str(rng.choice(settings.tasks))
    if task in _APPLIANCE and not layout.of(_APPLIANCE[task]):
        return None
    kinds = sorted({kind for _, kind, _ in layout.receptacles})
    own = [kind for kind in ROOMS[layout.room].things if any(fits(kind, place) for place in kinds)]
    lamps = [kind for kind in own if "toggleable" in THINGS[kind].affordances]
    able = _TREATMENT[task][0] if task in _TREATMENT else "pickupable"
    things = [kind for kind in own if {able, "pickupable"} <= THINGS[kind].affordances]
    if not things or (task == "examine" and not lamps):
        return None
    thing = str(rng.choice(things))
    homes = [kind for kind in kinds if fits(thing, kind)]
    places = lamps if task == "examine" else homes
    if len(homes) < 2 and task in ("place", "gather"):
        return None  # It would be there already.
    return Order(task, thing, str(rng.choice(places)))


def _furnish(
    settings: Settings, layout: Layout, order: Order, rng: np.random.Generator
) -> tuple[tuple[str, str, str], ...]:
    """Place the objects; return name, kind and receptacle of each."""
    wanted = settings.count if order.task == "gather" else 1
    extra = int(rng.integers(settings.copies + 1)) if settings.alike else 0
    kinds = [order.thing] * (wanted + extra) + [order.place] * (order.task == "examine")
    others = [kind for kind in ROOMS[layout.room].things if kind not in kinds and THINGS[kind].group != "lamp"]
    picks = rng.permutation(len(others)) if not settings.alike else rng.integers(len(others), size=60)
    kinds += [others[int(pick)] for pick in picks[: settings.distractors]]
    rng.shuffle(kinds)
    things = []
    for number, kind in enumerate(kinds):
        homes = [name for name, place, _ in layout.receptacles if fits(kind, place)]
        if kind == order.thing and order.task != "examine":
            homes = [name for name in homes if name not in layout.of(order.place)]
        if homes:
            things.append((f"{kind}_bar_{number:02d}", kind, homes[int(rng.integers(len(homes)))]))
    return tuple(things)


def _problem(
    settings: Settings,
    layout: Layout,
    things: tuple[tuple[str, str, str], ...],
    order: Order,
    rng: np.random.Generator,
) -> Problem:
    """Write a scene down as the original would."""
    facts: set[Fact] = {("atlocation", "agent1", "loc_bar_00")}
    objects = {"agent1": "agent", "loc_bar_00": "location"}
    kinds = sorted({kind for _, kind, _ in things})
    for name, kind, location in layout.receptacles:
        objects |= {name: "receptacle", f"{kind}type": "rtype", location: "location"}
        facts |= {("receptacletype", name, f"{kind}type"), ("receptacleatlocation", name, location)}
        facts |= {("cancontain", f"{kind}type", f"{thing}type") for thing in kinds if fits(thing, kind)}
        if RECEPTACLES[kind].openable:
            facts.add(("openable", name))
            if rng.random() >= settings.closed:
                facts.add(("opened", name))
    for name, kind, receptacle in things:
        objects |= {name: "object", f"{kind}type": "otype"}
        facts |= {("objecttype", name, f"{kind}type"), ("inreceptacle", name, receptacle)}
        facts |= {(affordance, name) for affordance in THINGS[kind].affordances}
    objects |= {f"{order.thing}type": "otype", f"{order.place}type": "otype" if order.task == "examine" else "rtype"}
    return Problem(objects, frozenset(facts), formula(_goal(order, settings.count)))


def _goal(order: Order, number: int) -> str:
    if order.task == "examine":
        return (
            "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objecttype ?ot {order.place}type) (toggleable ?ot) (istoggled ?ot) (receptacleatlocation ?r ?l) "
            "(atlocation ?a ?l) (inreceptacle ?ot ?r))) "
            f"(exists (?o - object ?a - agent) (and (objecttype ?o {order.thing}type) (holds ?a ?o))))"
        )
    names = [f"?o{index}" for index in range(number if order.task == "gather" else 1)]
    body = [f"(receptacletype ?r {order.place}type)"]
    body += [f"(objecttype {name} {order.thing}type) (inreceptacle {name} ?r)" for name in names]
    body += [f"(not (= {one} {other}))" for index, one in enumerate(names) for other in names[:index]]
    if order.task in _TREATMENT:
        able, made = _TREATMENT[order.task]
        body.append(f"({able} ?o0) ({made} ?o0)")
    return f"(exists (?r - receptacle {' '.join(names)} - object) (and {' '.join(body)}))"


def _sentence(settings: Settings, order: Order, rng: np.random.Generator) -> str:
    sentence = SENTENCES[order.task][int(rng.integers(2))]
    return sentence.format(thing=order.thing, place=order.place, number=NUMBERS[settings.count])


def _template(layout: Layout) -> str:
    """Return what is equal exactly for rooms of equal furniture."""
    return f"template: {layout.room}: {', '.join(sorted(kind for _, kind, _ in layout.receptacles))}"


def _content(layout: Layout, things: tuple[tuple[str, str, str], ...], order: Order) -> str:
    """Hash a scene: places as sets of receptacles, receptacles as kinds with sets of kinds, and what is asked for."""
    inside: dict[str, list[str]] = {name: [] for name, _, _ in layout.receptacles}
    for _, kind, receptacle in things:
        inside[receptacle].append(kind)
    places: dict[str, list[str]] = {}
    for name, kind, location in layout.receptacles:
        places.setdefault(location, []).append(f"{kind}({' '.join(sorted(inside[name]))})")
    described = sorted(" + ".join(sorted(group)) for group in places.values())
    return hashlib.sha256("\n".join([layout.room, *described, *order]).encode()).hexdigest()


def _tenth(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 10


def _split(content: str) -> str:
    """Return the split of a scene whose template is seen: 80 % train, 10 % valid, 10 % test."""
    return (("train",) * 8 + ("valid", "test-seen"))[_tenth(content)]
