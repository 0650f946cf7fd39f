"""A shop of our own: synthetic products and the wishes of its customers.

`generate(n, seed)` decides everything; the first products of a larger shop are those of a smaller one. Shares and sizes
follow the thousand genuine products that the field's small WebShop uses (see the card). Products come in families of
near duplicates: the same kind of thing, alike in all but one attribute, the options, or the price, so that a search for
the words of a wish finds several and only reading tells them apart. About half of the attributes stay out of the title,
in the description or among the features.

The words are in `lexicon.toml`, nouns marked by where they stand, so that the nouns of a title are known exactly.
"""

import itertools
import math
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentbench.core.seeding import derive
from agentbench_envs.webshop.goals import NO_CEILING, draw_ceiling, draw_price, goal_of
from agentbench_envs.webshop.products import Goal, Product

VERSION: Final = 1
"""Grows when the products or goals of a seed change."""

FAMILY_SIZES: Final = (1, 1, 2, 2, 3, 4)
MOST_GOALS: Final = 6
"""Goals per product at most, with different options."""

OPTION_COUNTS: Final = (0.577, 0.245, 0.165, 0.013)
"""Shares of products with none, one, two and three options."""

RANGED: Final = 0.093
"""Share of products whose price is a range."""

MEDIAN_PRICE: Final = 26.0
HIDDEN: Final = 0.5
"""Share of attributes that the title does not name."""

PLACES: Final = 36**8
STEP: Final = 2_654_435_761
"""Coprime to `PLACES`, so that asins look arbitrary and never repeat."""

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_OPENINGS: Final = (
    "i'm looking for {thing}", "i need {thing}", "find me {thing}", "can you find {thing}", "i would like {thing}",
    "please get me {thing}", "i am shopping for {thing}", "show me {thing}", "i want to buy {thing}",
    "looking to order {thing}", "my sister wants {thing}", "help me find {thing}",
)  # fmt: skip
_THINGS: Final = (
    "a {attributes} {kind}",
    "a {kind} that is {attributes}",
    "a {first} {kind} with {rest}",
    "some {kind}, {attributes}",
)
_PRICES: Final = (
    ", and price lower than {price:.2f} dollars",
    ", under {price:.0f} dollars",
    ", for less than ${price:.0f}",
    ". it should cost less than {price:.2f} dollars",
)


class Made(NamedTuple):
    """A generated product, its price, and the goals that want it."""

    product: Product
    price: float
    goals: list[Goal]


class _Kind(NamedTuple):
    """A kind of thing that is sold, and the shelf where it stands."""

    category: Mapping[str, Any]
    shelf: str
    name: str


class _Texts(NamedTuple):
    """What a product's page says."""

    title: str
    description: str
    bullets: list[str]


@dataclass(frozen=True, slots=True)
class _Family:
    """What near duplicates share."""

    number: int
    kind: _Kind
    attributes: list[str]
    price: float


def generate(count: int, seed: int = 0) -> Iterator[Made]:
    """Yield the products of a shop, with their goals.

    Args:
        count: How many.
        seed: Which shop.
    """
    made = (member for number in itertools.count() for member in _members(number, seed))
    for position, (family, rng) in enumerate(itertools.islice(made, count)):
        yield _make(family, asin_of(position, seed), rng)


def asin_of(position: int, seed: int) -> str:
    """Return a product's name: `B0` and eight letters or digits, different for every position."""
    value = (position * STEP + derive("webshop asin", seed)) % PLACES
    letters = ""
    for _ in range(8):
        value, digit = divmod(value, 36)
        letters += _DIGITS[digit]
    return "B0" + letters


def _members(number: int, seed: int) -> Iterator[tuple[_Family, random.Random]]:
    rng = random.Random(derive("webshop family", VERSION, seed, number))
    kind = rng.choices(*_kinds())[0]
    attributes = _attributes(kind.category, 1 + _poisson(1.8, rng), rng)
    price = min(900.0, max(2.5, MEDIAN_PRICE * math.exp(rng.gauss(0, 0.9))))
    family = _Family(number, kind, attributes, price)
    for _ in range(rng.choice(FAMILY_SIZES)):
        yield family, rng


def _poisson(mean: float, rng: random.Random) -> int:
    limit, count, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        count, product = count + 1, product * rng.random()
    return count


def _attributes(category: Mapping[str, Any], count: int, rng: random.Random) -> list[str]:
    """Draw attributes: common ones as by Zipf's law, and rare ones made of two words."""
    common = category["attributes"]
    weights = [1 / (rank + 3) for rank in range(len(common))]
    drawn: dict[str, None] = {}
    while len(drawn) < count:
        rare = rng.random() < 0.35
        two = f"{rng.choice(category['qualities'])} {rng.choice(category['features'])}"
        drawn[two if rare else rng.choices(common, weights)[0]] = None
    return list(drawn)


def _make(family: _Family, asin: str, rng: random.Random) -> Made:
    """Make one member of a family, alike in all but a little."""
    category = family.kind.category
    attributes = list(family.attributes)
    if rng.random() < 0.6:
        other = _attributes(category, 1, rng)[0]
        if other not in attributes:
            attributes[rng.randrange(len(attributes))] = other
    options = _options(category, rng)
    pricing = [round(family.price * rng.uniform(0.6, 1.7), 2)]
    if rng.random() < RANGED:
        pricing.append(round(pricing[0] * rng.uniform(1.1, 2.0), 2))
    texts = _write(family.kind, attributes, rng)
    product: Product = {
        "asin": asin,
        "Title": texts.title,
        "Description": texts.description,
        "BulletPoints": texts.bullets,
        "Price": " to ".join(f"${price}" for price in pricing),
        "pricing": pricing,
        "options": options,
        "Attributes": attributes,
        "Rating": "N.A.",
        "query": _plural(family.kind.name),
        "category": category["name"],
        "product_category": f"{category['root']} › {family.kind.shelf} › {_plural(family.kind.name).title()}",
    }
    price = draw_price(product, rng)
    return Made(product, price, _goals(product, family, price, rng))


def _options(category: Mapping[str, Any], rng: random.Random) -> dict[str, list[str]]:
    count = rng.choices(range(4), OPTION_COUNTS)[0]
    pools = {
        "color": _lexicon()["colors"],
        "size": category["sizes"],
        category["extra_option"]: category["extra_values"],
    }
    names = ["color", "size"] if count == 2 else rng.choices([*pools], (0.49, 0.43, 0.08))
    if count == 3:
        names = [*pools]
    options = {}
    for name in names[:count]:
        most = min(len(pools[name]), 45)
        options[name] = rng.sample(pools[name], min(most, 2 + int(rng.expovariate(1 / 4.2))))
    return options


def _write(kind: _Kind, attributes: Sequence[str], rng: random.Random) -> _Texts:
    """Write title, description and features; every attribute stands in at least one of them."""
    words = _lexicon()
    shown = [attribute for attribute in attributes if rng.random() >= HIDDEN]
    hidden = [attribute for attribute in attributes if attribute not in shown]
    brand = rng.choice(words["brand_starts"]) + rng.choice(words["brand_ends"]) + rng.choice(words["brand_kinds"])
    use = rng.sample(words["occasions"], 3)
    title = [brand, rng.choice(words["lines"]), *(attribute.title() for attribute in shown), kind.name.title()]
    tail = f"for {rng.choice(words['audiences']).title()}, {', '.join(rng.sample(words['praise'], 2)).title()}, "
    tail += f"Ideal for {use[0].title()} and {use[1].title()}"
    bullets = [_feature(attribute, kind.name, rng) for attribute in hidden]
    while len(bullets) < 4 + rng.randrange(4):
        bullets.append(_filler(kind.name, rng))
    rng.shuffle(bullets)
    described = [_sentence(kind.name, rng) for _ in range(5 + rng.randrange(4))]
    if hidden and rng.random() < 0.5:
        moved = rng.choice(hidden)
        bullets = [bullet for bullet in bullets if moved.upper() not in bullet] or [_filler(kind.name, rng)]
        described.insert(rng.randrange(len(described)), f"What sets it apart is that it is {moved}.")
    about = f"The {brand} {kind.name} is made for {use[2]}. "
    return _Texts(" ".join([*title, tail]), about + " ".join(described), bullets)


def _feature(attribute: str, name: str, rng: random.Random) -> str:
    return f"{attribute.upper()} - this {name} is {attribute} and {rng.choice(_lexicon()['praise'])}."


def _filler(name: str, rng: random.Random) -> str:
    words = _lexicon()
    return f"{rng.choice(words['praise']).upper()} - an ideal {name} for {rng.choice(words['occasions'])}."


def _sentence(name: str, rng: random.Random) -> str:
    words = _lexicon()
    one, other = rng.sample(words["praise"], 2)
    return f"A {one} and {other} {name} that customers choose for {rng.choice(words['occasions'])}."


def _goals(product: Product, family: _Family, price: float, rng: random.Random) -> list[Goal]:
    ceiling = draw_ceiling(price, rng)
    names = list(product["options"])
    total = math.prod(len(values) for values in product["options"].values())
    goals = []
    for number in rng.sample(range(total), min(total, MOST_GOALS)):
        chosen = {}
        for name in names:
            number, index = divmod(number, len(product["options"][name]))
            chosen[name] = product["options"][name][index]
        attributes = rng.sample(product["Attributes"], min(len(product["Attributes"]), 3))
        text = _say(family.kind.name, attributes, chosen, ceiling, rng)
        goal = goal_of(product, text, attributes, ceiling, chosen)
        goal["family"] = "|".join([product["query"], *sorted(family.attributes)])
        goals.append(goal)
    return goals


def _say(name: str, attributes: Sequence[str], chosen: Mapping[str, str], ceiling: float, rng: random.Random) -> str:
    """Put a wish into words."""
    patterns = _THINGS if len(attributes) > 1 else _THINGS[:2]
    thing = rng.choice(patterns).format(
        attributes=_listed(attributes), kind=name, first=attributes[0], rest=_listed(attributes[1:])
    )
    said = rng.choice(_OPENINGS).format(thing=thing)
    if chosen:
        said += rng.choice((" with {}", ", {}", " and i want {}")).format(_listed(_named(chosen, rng)))
    return said if ceiling == NO_CEILING else said + rng.choice(_PRICES).format(price=ceiling)


def _named(chosen: Mapping[str, str], rng: random.Random) -> list[str]:
    forms = ("{name}: {value}", "{value} {name}", "{name} {value}")
    return [rng.choice(forms).format(name=name, value=value) for name, value in chosen.items()]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _plural(name: str) -> str:
    return name + ("es" if name.endswith(("s", "x", "ch", "sh")) else "s")


@cache
def _lexicon() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))


@cache
def _kinds() -> tuple[list[_Kind], list[float]]:
    """Return every kind of thing and how often it is drawn."""
    kinds, weights = [], []
    for category in _lexicon()["categories"]:
        here = [_Kind(category, shelf, name) for shelf, names in category["shelves"].items() for name in names]
        kinds += here
        weights += [category["weight"] / len(here)] * len(here)
    return kinds, weights


@cache
def _nouns() -> frozenset[str]:
    """Return the nouns of titles: things, uses, people, and the second word of a two-word attribute."""
    words = _lexicon()
    things = [kind.name for kind in _kinds()[0]] + words["occasions"] + words["audiences"]
    things += [feature for category in words["categories"] for feature in category["features"]]
    brands = [start + end for start in words["brand_starts"] for end in words["brand_ends"]]
    things += brands + [kind for kind in words["brand_kinds"] if kind]
    return frozenset(word for thing in things for word in thing.lower().replace("-", " ").split())


@lru_cache(maxsize=65536)
def nouns(title: str) -> tuple[str, ...]:
    """Return the nouns of a generated title, in lower case."""
    known = _nouns()
    return tuple(word for word in title.lower().replace("-", " ").replace(",", " ").split() if word in known)
