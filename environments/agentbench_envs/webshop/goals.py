"""From wishes to goals, with the original's price ceilings, weights and order (Yao et al. 2022, `get_goals`).

The original draws prices and ceilings from Python's global generator and never seeds it, so that two runs of it do not
have the same goals. Here a `random.Random` of the caller's draws them, in the original's order of draws.
"""

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from agentbench_envs.webshop.products import Goal, Product

Kind = Literal["synthetic", "human"]
"""Wishes written by a template for every combination of options, or by people."""

CEILINGS: Final = tuple(10.0 * step for step in range(1, 100))
NO_CEILING: Final = 1_000_000.0

SHUFFLE_SEED: Final = 233
"""The original's, for the order of goals."""


class Wish(NamedTuple):
    """A sentence that asks for a product."""

    instruction: str
    attributes: list[str]
    options: list[str] | None
    """Values that are wanted; None: one goal for every combination of the product's options."""


def wishes_of(kind: Kind, attributes: Mapping[str, Any], human: Sequence[Mapping[str, Any]]) -> list[Wish]:
    """Read a product's wishes.

    Args:
        kind: Which of the two to read.
        attributes: The product's entry in `items_ins_v2*.json`.
        human: Its entry in `items_human_ins.json`.
    """
    if kind == "human":
        said = [Wish(each["instruction"].strip("."), each["instruction_attributes"], each["instruction_options"])
                for each in human]  # fmt: skip
        return [wish for wish in said if wish.attributes]
    instruction = attributes.get("instruction")
    return [] if instruction is None else [Wish(instruction, attributes.get("instruction_attributes") or [], None)]


def draw_price(product: Product, rng: random.Random) -> float:
    """Return what a product costs; where its price is a range, a draw from it."""
    pricing = product["pricing"]
    return pricing[0] if len(pricing) == 1 else rng.uniform(pricing[0], pricing[1])


def draw_ceiling(price: float, rng: random.Random) -> float:
    """Return the most that a shopper would pay: the larger of two of the next four multiples of 10."""
    above = [ceiling for ceiling in CEILINGS if ceiling > price][:4]
    return max(rng.sample(above, 2)) if len(above) >= 2 else NO_CEILING


def goals_of(product: Product, wish: Wish, ceiling: float) -> list[Goal]:
    """Return the goals that a wish stands for, without their weights."""
    price = "" if ceiling == NO_CEILING else f", and price lower than {ceiling:.2f} dollars"
    if wish.options is not None:
        return [goal_of(product, wish.instruction + price, wish.attributes, ceiling, list(wish.options))]
    names = sorted(product["options"])
    goals = []
    for values in itertools.product(*(product["options"][name] for name in names)):
        chosen = dict(zip(names, values, strict=True))
        wanted = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
        text = wish.instruction + (f" with {wanted}" if wanted else "") + price
        goals.append(goal_of(product, text, wish.attributes, ceiling, chosen))
    return goals


def goal_of(
    product: Product, text: str, attributes: list[str], ceiling: float, options: dict[str, str] | list[str]
) -> Goal:
    """Return the goal of buying a product, with these attributes and options, for at most so much."""
    return {
        "asin": product["asin"],
        "category": product["category"],
        "query": product["query"],
        "name": product["Title"],
        "product_category": product["product_category"],
        "instruction_text": text,
        "attributes": attributes,
        "price_upper": ceiling,
        "goal_options": options,
        "weight": 1,
    }


def weigh(goals: Sequence[Goal], kind: Kind) -> None:
    """Set the weights: 1 for human goals, else the mean rarity of the attributes, 1 / (goals that ask for it)."""
    if kind == "synthetic":
        asked = Counter(attribute for goal in goals for attribute in goal["attributes"])
        for goal in goals:
            goal["weight"] = sum(1.0 / asked[attribute] for attribute in goal["attributes"]) / len(goal["attributes"])


def shuffled_order(count: int) -> list[int]:
    """Return the original's order of goals: which of the goals as made stands at each position."""
    order = list(range(count))
    random.Random(SHUFFLE_SEED).shuffle(order)
    return order
