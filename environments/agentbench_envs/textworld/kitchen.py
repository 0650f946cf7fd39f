"""What the compiled cooking games check beyond their rules.

`tw-cooking` offers two commands that the compiled game may still answer with a refusal, changing nothing: `prepare
meal` demands every ingredient in hand, each cut and cooked as the recipe says, and taking demands a free hand, of which
there are as many as the game has `slot`s (its rules count them too, but not what is carried from the start).
"""

from agentbench_envs.textworld.ground import Action, Grounding
from agentbench_envs.textworld.logic import Atom

COOKED = ("fried", "roasted", "grilled")
CUT = ("sliced", "diced", "chopped")


class Kitchen:
    """The further checks of one game; in a game without recipe and slots nothing is refused.

    Args:
        facts: What holds at the start.
        kinds: The type of each entity.
        grounding: The game's bits.
    """

    def __init__(self, facts: frozenset[Atom], kinds: dict[str, str], grounding: Grounding) -> None:
        self.hands = sum(kind == "slot" for kind in kinds.values())
        self.carried = 0
        for fact, bit in grounding.bits.items():
            if fact.name == "in" and fact.arguments[1:] == ("I",):
                self.carried |= bit
        base = {fact.arguments[1]: fact.arguments[0] for fact in facts if fact.name == "base"}
        wanted = [fact.arguments[0] for fact in facts if fact.name == "in" and fact.arguments[1:] == ("RECIPE",)]
        needed: list[Atom] = []
        unwanted: list[Atom] = []
        for ingredient in wanted:
            food = (base.get(ingredient, ingredient),)
            needed.append(Atom("in", (*food, "I")))
            needed += [Atom(way, food) for way in COOKED + CUT if Atom(way, (ingredient,)) in facts]
            raw, uncut = (Atom(way, (ingredient,)) in facts for way in ("raw", "uncut"))
            unwanted += [Atom(way, food) for way in COOKED * raw + CUT * uncut]
        self.needed = grounding.mask(needed)
        self.unwanted = sum(grounding.bits.get(fact, 0) for fact in unwanted)

    def demands(self, action: Action) -> int:
        """Return the facts that an action needs beyond its rule's."""
        return self.needed or 0 if action.rule.startswith("make/recipe") else 0

    def refuses(self, action: Action, state: int) -> bool:
        """Tell whether the game refuses an action that its rules allow."""
        if action.rule.startswith("make/recipe"):
            return self.needed is None or state & self.needed != self.needed or state & self.unwanted != 0
        full = self.hands > 0 and (state & self.carried).bit_count() >= self.hands
        return full and action.rule.startswith("take")
