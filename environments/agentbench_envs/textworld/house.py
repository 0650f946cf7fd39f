"""The house of `tw-simple`: a locked bedroom, a key in one of two places, one of six foods to bring to the stove."""

from agentbench_envs.textworld.game import Quest
from agentbench_envs.textworld.logic import Atom
from agentbench_envs.textworld.world import World

KEY_PLACES = ("drawer", "trunk")
FOODS = {
    "apple": "garden",
    "milk": "fridge",
    "lettuce": "garden",
    "pepper": "garden",
    "bread": "counter",
    "crisps": "fridge",
}
"""Where each food is found."""

_GAMES = [(key, food) for key in KEY_PLACES for food in FOODS]

_SPLITS = {"test": (3, 10), "valid": (1, 8)}
"""Numbers of the games; one of each key place."""


def tasks(split: str) -> list[tuple[str, str]]:
    """Return the games of a split, as where the key is and which food is wanted."""
    held = {number for numbers in _SPLITS.values() for number in numbers}
    chosen = _SPLITS.get(split) or [number for number in range(len(_GAMES)) if number not in held]
    return [_GAMES[number] for number in chosen]


def build(world: World, key_place: str, food: str) -> tuple[list[Quest], str]:
    """Build the house; return the quests and the goal."""
    rooms = ("bedroom", "kitchen", "living room", "bathroom", "backyard", "garden")
    bedroom, kitchen, living, bathroom, backyard, garden = (world.room(name) for name in rooms)
    wooden, screen = world.new("d", "wooden door"), world.new("d", "screen door")
    world.connect(bedroom, "east", kitchen, wooden, "locked")
    world.connect(kitchen, "east", backyard, screen, "closed")
    world.connect(kitchen, "south", living)
    world.connect(living, "west", bathroom)
    world.connect(backyard, "south", garden)
    world.say("at", "P", bedroom)
    places = {"garden": garden}
    for name, kind, room in (
        ("drawer", "c", bedroom), ("trunk", "c", bedroom), ("bed", "s", bedroom), ("fridge", "c", kitchen),
        ("counter", "s", kitchen), ("stove", "s", kitchen), ("couch", "s", living), ("sink", "s", bathroom),
        ("bench", "s", backyard),
    ):  # fmt: skip
        places[name] = world.new(kind, name)
        world.put(places[name], room)
        if kind == "c":
            world.say("closed", places[name])
    key = world.new("k", "old key")
    world.say("match", key, wooden)
    world.put(key, places[key_place])
    foods = {name: world.new("f", name) for name in FOODS}
    for name, place in FOODS.items():
        world.put(foods[name], places[place])
    for name, place in (("note", "counter"), ("remote", "couch"), ("toothbrush", "sink"), ("shovel", "garden")):
        world.put(world.new("o", name), places[place])
    win = frozenset({Atom("on", (foods[food], places["stove"]))})
    lose = frozenset({Atom("eaten", (foods[food],))})
    return [Quest((win,), (lose,))], f"Find the {food} and put it on the stove. Do not eat it."
