"""The kitchen of `tw-cooking`: gather ingredients, cut and cook each as the cookbook says, prepare the meal, eat it.

Cutting the wrong way, cooking too often or the wrong way, or eating an ingredient loses the game.
"""

from dataclasses import replace

from agentbench.core.errors import GenerationError
from agentbench_envs.textworld.game import Quest
from agentbench_envs.textworld.kitchen import CUT
from agentbench_envs.textworld.logic import Atom, Logic, Rule, parse
from agentbench_envs.textworld.names import INGREDIENTS
from agentbench_envs.textworld.rules import KITCHEN
from agentbench_envs.textworld.world import WAYS, World

WAYS_TO_COOK = ("raw", "fried", "roasted")
WAYS_TO_CUT = ("uncut", *CUT)


def build(world: World, rooms: int, ingredients: int, distractors: int) -> tuple[Logic, list[Quest]]:
    """Build a kitchen with rooms around it; return the rules, with the recipe among them, and the quests.

    Args:
        world: Where to build.
        rooms: Rooms in all.
        ingredients: Ingredients of the recipe.
        distractors: Further foods.
    """
    kitchen = world.room("kitchen")
    cells = {(0, 0): kitchen}
    _add_rooms(world, cells, rooms)
    places = {name: world.new(kind, name) for name, kind in (("fridge", "c"), ("counter", "s"), ("table", "s"))}
    stove, oven = world.new("stove", "stove"), world.new("oven", "oven")
    for thing in (*places.values(), stove, oven):
        world.put(thing, kitchen)
    world.say("closed", places["fridge"])
    world.say("closed", oven)
    names = list(world.rng.permutation(INGREDIENTS)[: ingredients + distractors])
    foods = [world.new("f", str(name)) for name in names]
    for food in foods:
        world.put(food, world.pick([*world.of("r"), places["fridge"], places["fridge"], places["counter"]]))
        world.say("raw", food)
        world.say("uncut", food)
    knife, book = world.new("o", "knife"), world.new("o", "cookbook")
    world.say("sharp", knife)
    world.put(knife, world.pick([places["counter"], places["table"]]))
    world.put(book, places["table"])
    meal = world.new("f", "meal")
    world.say("at", "P", world.pick(world.of("r")))
    recipe = [(food, world.pick(WAYS_TO_COOK), world.pick(WAYS_TO_CUT)) for food in foods[:ingredients]]
    world.say("kitchen", kitchen)
    world.say("dish", meal)
    for number, (food, cooked, cut) in enumerate(recipe):
        world.say(_part(number, cooked, cut), food)
    world.notes[book] = _page(world, recipe)
    return _with_recipe(recipe), _quests(recipe, meal)


def _add_rooms(world: World, cells: dict[tuple[int, int], str], rooms: int) -> None:
    for _ in range(50 * rooms):
        if len(cells) >= rooms:
            return
        cell = list(cells)[int(world.rng.integers(len(cells)))]
        way = world.pick(list(WAYS))
        beside = (cell[0] + WAYS[way][0], cell[1] + WAYS[way][1])
        if beside not in cells:
            cells[beside] = world.room(cell=beside)
            world.connect(cells[cell], way, cells[beside])
            if world.chance(0.3):
                world.hang(cells[cell], cells[beside], world.pick(("open", "closed")))
    raise GenerationError("the rooms did not fit")


def _page(world: World, recipe: list[tuple[str, str, str]]) -> str:
    lines = []
    for food, cooked, cut in recipe:
        words = [word for word in (cooked, cut) if word not in ("raw", "uncut")]
        lines.append(" ".join([*words, world.names[food]]))
    return f"The recipe takes: {', '.join(lines)}. When all is ready, prepare the meal in the kitchen."


def _part(number: int, cooked: str, cut: str) -> str:
    """Name the predicate that says which food is an ingredient of the recipe."""
    return f"part_{number}_{cooked}_{cut}"


def _with_recipe(recipe: list[tuple[str, str, str]]) -> Logic:
    """Return the kitchen's rules, and one more for preparing this meal."""
    logic = parse(KITCHEN)
    types = {"P": "P", "I": "I", "r": "r", "m": "f"}
    kept = [Atom("at", ("P", "r")), Atom("kitchen", ("r",)), Atom("dish", ("m",))]
    used = []
    for number, (_, cooked, cut) in enumerate(recipe):
        food = f"f{number}"
        types[food] = "f"
        kept.append(Atom(_part(number, cooked, cut), (food,)))
        used += [Atom("in", (food, "I")), Atom(cooked, (food,)), Atom(cut, (food,))]
    rule = Rule("prepare", (*kept, *used), (*kept, Atom("in", ("m", "I"))), types, "prepare meal")
    return replace(logic, rules=tuple(sorted((*logic.rules, rule), key=lambda rule: rule.name)))


def _quests(recipe: list[tuple[str, str, str]], meal: str) -> list[Quest]:
    wrong = [
        Atom(way, (food,))
        for food, cooked, cut in recipe
        for way in ("eaten", "burned", *WAYS_TO_COOK[1:], *CUT)
        if way not in (cooked, cut)
    ]
    return [Quest((frozenset({Atom("eaten", (meal,))}),), tuple(frozenset({fact}) for fact in wrong))]
