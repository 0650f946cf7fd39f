"""Which game an episode plays: the settings and the seed decide, and nothing else.

Worlds are drawn, with seeds derived from the one given, until one has a shape of the wanted split and a goal of the
wanted length. `simple` is a short list of games instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from agentbench.core.errors import GenerationError, UsageError
from agentbench.core.seeding import derive, generator
from agentbench_envs.textworld import cooking, house
from agentbench_envs.textworld.game import Game, Quest, Scene
from agentbench_envs.textworld.ground import Action
from agentbench_envs.textworld.logic import Atom, parse
from agentbench_envs.textworld.names import BY_KIND, SHORT
from agentbench_envs.textworld.planner import Planner
from agentbench_envs.textworld.quest import Rewards, choose, pay, to_do, to_hold
from agentbench_envs.textworld.rules import HOUSE
from agentbench_envs.textworld.world import WAYS, World

Family = Literal["custom", "simple", "treasure", "coin", "cooking"]

MOST_DRAWS = 3_000
"""Worlds after which the settings are called impossible."""

SPLITS = ("train",) * 8 + ("valid", "test")


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides a game, together with the seed."""

    family: Family
    rooms: int
    objects: int
    length: int
    """Actions of a shortest solution (`custom`, `treasure`); rooms on the way (`coin`); ingredients (`cooking`)."""
    breadth: int
    """Facts that the goal joins."""
    distractors: int
    """Dead ends beside each room of the way (`coin`); foods that serve nothing (`cooking`)."""
    rewards: Rewards
    short_names: bool
    split: str

    def check(self) -> None:
        """Refuse what no game can have.

        Raises:
            UsageError: A value is out of its range.
        """
        if self.family not in _FAMILIES:
            raise UsageError(f"found family {self.family!r}, expected one of {', '.join(_FAMILIES)}")
        if self.rewards not in ("dense", "balanced", "sparse"):
            raise UsageError(f"found rewards {self.rewards!r}, expected dense, balanced or sparse")
        if self.split not in SPLITS:
            raise UsageError(f"found split {self.split!r}, expected train, valid or test")
        for name, most in (("rooms", 60), ("objects", 60), ("length", 100), ("breadth", 5)):
            if not 1 <= getattr(self, name) <= most:
                raise UsageError(f"found {name} {getattr(self, name)}, expected 1 to {most}")
        if not 0 <= self.distractors <= 20:
            raise UsageError(f"found {self.distractors} distractors, expected 0 to 20")
        if self.family == "cooking" and self.length > 4:
            raise UsageError(f"found {self.length} ingredients (length), expected 1 to 4")


class Task(NamedTuple):
    """A game with everything that is said about it."""

    game: Game
    planner: Planner
    plan: list[Action]
    """A shortest solution."""
    goal: str
    """What to do, in one sentence."""
    notes: dict[str, str]
    """What examining a thing tells beyond the ordinary."""


class Draft(NamedTuple):
    """A world, what is to be done in it, and how it is told."""

    world: World
    scene: Scene
    quests: list[Quest]
    goal: str


def count(settings: Settings) -> int | None:
    """Return how many games there are, for families that are lists; None for the others."""
    return len(house.tasks(settings.split)) if settings.family == "simple" else None


@lru_cache(maxsize=256)
def draw(settings: Settings, seed: int) -> Task:
    """Return the game of a seed.

    Raises:
        UsageError: No game fits the settings.
    """
    for attempt in range(MOST_DRAWS):
        rng = generator("textworld", seed, attempt)
        world = World(rng, SHORT if settings.short_names else BY_KIND)
        try:
            draft = _FAMILIES[settings.family](world, settings, seed)
            break
        except GenerationError:
            continue
    else:
        raise UsageError(f"none of {MOST_DRAWS} worlds fits {settings}; allow another length, more rooms or objects")
    game = Game(draft.scene, draft.quests, draft.goal)
    planner = Planner(game)
    plan = planner.plan(game.scene.grounding.start, 0)
    if settings.rewards != "sparse":
        game = Game(draft.scene, pay(game, plan, settings.rewards), draft.goal)
        planner = Planner(game)
        plan = planner.plan(game.scene.grounding.start, 0)
    return Task(game, planner, plan, draft.goal, world.notes)


def check_split(world: World, split: str) -> None:
    """Refuse a world whose shape belongs to another split.

    Raises:
        GenerationError: It does.
    """
    if SPLITS[derive("textworld split", world.shape()) % len(SPLITS)] != split:
        raise GenerationError("the world belongs to another split")


def _scene(world: World) -> Scene:
    return Scene(parse(HOUSE), world.facts, world.kinds, world.names)


def _custom(world: World, settings: Settings, seed: int) -> Draft:
    """A free world and a goal in it, as `tw-make custom`."""
    scene = _house(world, settings)
    facts = choose(world, scene, to_do(world), settings.length, settings.breadth)
    goal = " and ".join(told(world, fact) for fact in sorted(facts))
    return Draft(world, scene, [Quest((facts,))], f"{goal[0].upper()}{goal[1:]}.")


def _treasure(world: World, settings: Settings, seed: int) -> Draft:
    """A thing to find, and another that must not be taken, as in `tw-treasure_hunter`."""
    scene = _house(world, settings)
    goal = choose(world, scene, to_hold(world), settings.length)
    others = [fact for fact in to_hold(world) if fact not in goal and world.kinds[fact.arguments[0]] != "k"]
    if not others:
        raise GenerationError("there is nothing else to take")
    wrong = frozenset({others[int(world.rng.integers(len(others)))]})
    right, trap = (world.names[fact.arguments[0]] for fact in (*goal, *wrong))
    return Draft(world, scene, [Quest((goal,), (wrong,))], f"Find and take the {right}. Do not take the {trap}.")


def _house(world: World, settings: Settings) -> Scene:
    world.grow(settings.rooms)
    world.say("at", "P", world.pick(world.of("r")))
    _furnish(world, settings.objects, locks=min(0.6, settings.length / 12))
    check_split(world, settings.split)
    return _scene(world)


def _furnish(world: World, objects: int, locks: float) -> None:
    """Put things into a world: doors, furniture for about a third, keys for what is locked, and what can be carried."""
    for here, there in world.doors:
        if world.chance(0.35):
            world.hang(here, there, world.pick(("open", "closed", "closed")))
    rooms = world.of("r")
    for number in range(max(1, (objects + 1) // 3)):
        kind = "c" if number % 2 == 0 or world.chance(0.4) else "s"
        furniture = world.new(kind)
        world.put(furniture, world.pick(rooms))
        if kind == "c":
            world.say(world.pick(("open", "closed", "closed")), furniture)
    left = objects - len(world.of("c", "s"))
    closed = [fact.arguments[0] for fact in sorted(world.facts) if fact.name == "closed"]
    for thing in closed:
        if left > 1 and world.chance(locks):
            world.facts -= {Atom("closed", (thing,))}
            world.say("locked", thing)
            key = world.new("k")
            world.say("match", key, thing)
            left -= 1
    for _ in range(max(1, left)):
        world.new("f" if world.chance(0.35) else "o")
    for thing in world.of("o", "f", "k"):
        world.put(thing, world.pick([*rooms, *world.of("c", "s"), *world.of("c", "s"), *(["I"] * world.chance(0.2))]))


def _coin(world: World, settings: Settings, seed: int) -> Draft:
    """A coin at the end of a way of rooms, as in `tw-coin_collector`."""
    cell, used = (0, 0), {(0, 0)}
    rooms = [world.room()]
    side: list[tuple[str, str, tuple[int, int]]] = []
    for _ in range(settings.length - 1):
        free = [(way, (cell[0] + dx, cell[1] + dy)) for way, (dx, dy) in WAYS.items()]
        free = [(way, beside) for way, beside in free if beside not in used]
        if not free:
            raise GenerationError("the way has walled itself in")
        way, cell = free[int(world.rng.integers(len(free)))]
        used.add(cell)
        rooms.append(world.room(cell=cell))
        world.connect(rooms[-2], way, rooms[-1])
        side += [(rooms[-2], other, beside) for other, beside in free if beside != cell]
    for here, way, beside in side:
        if beside not in used and sum(one == here for one, _ in world.doors) <= settings.distractors:
            used.add(beside)
            world.connect(here, way, world.room(cell=beside))
    world.say("at", "P", rooms[0])
    coin = world.new("o", "coin")
    world.put(coin, rooms[-1])
    check_split(world, settings.split)
    quest = Quest((frozenset({Atom("in", (coin, "I"))}),))
    return Draft(world, _scene(world), [quest], "Find the coin and take it.")


def _simple(world: World, settings: Settings, seed: int) -> Draft:
    """One of the few games of a house, as in `tw-simple`."""
    quests, goal = house.build(world, *house.tasks(settings.split)[seed % len(house.tasks(settings.split))])
    return Draft(world, _scene(world), quests, goal)


def _cooking(world: World, settings: Settings, seed: int) -> Draft:
    """A recipe to cook, as in `tw-cooking`."""
    logic, quests = cooking.build(world, settings.rooms, settings.length, settings.distractors)
    check_split(world, settings.split)
    scene = Scene(logic, world.facts, world.kinds, world.names)
    return Draft(world, scene, quests, "Read the cookbook, prepare the meal, and eat it.")


_FAMILIES: dict[str, Callable[[World, Settings, int], Draft]] = {
    "custom": _custom,
    "simple": _simple,
    "treasure": _treasure,
    "coin": _coin,
    "cooking": _cooking,
}


def told(world: World, fact: Atom) -> str:
    """Say how to bring a fact about."""
    names = [world.names.get(entity, entity) for entity in fact.arguments]
    if fact.name == "in" and fact.arguments[1] == "I":
        return f"take the {names[0]}"
    forms = {
        "in": "put the {0} into the {1}",
        "on": "put the {0} on the {1}",
        "eaten": "eat the {0}",
        "open": "open the {0}",
    }
    return forms.get(fact.name, "go to the {1}").format(*names)
