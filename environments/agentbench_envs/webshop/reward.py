"""The original's score of a purchase, and the matching behind it.

    score = type * (attributes matched + options matched + [price <= ceiling]) / (attributes + options + 1)

(Yao et al. 2022, equation 1; details from the published code at 64fa2a5). `type` compares titles by their nouns, search
queries and category paths. Two texts match if thefuzz's `token_set_ratio` exceeds 85; here it is computed by
rapidfuzz, which thefuzz calls since 0.20. Which words of a title are nouns is the caller's to say: the original asks
spaCy.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from rapidfuzz import fuzz, utils

COLORS: Final = (
    "alabaster", "apricot", "aqua", "ash", "asphalt", "azure", "banana", "beige", "black", "blue", "blush",
    "bordeaux", "bronze", "brown", "burgundy", "camel", "camo", "caramel", "champagne", "charcoal", "cheetah",
    "chestnut", "chocolate", "christmas", "coffee", "cognac", "copper", "coral", "cranberry", "cream", "crystal",
    "dark", "denim", "eggplant", "elephant", "espresso", "fuchsia", "gold", "granite", "grape", "graphite", "grass",
    "gray", "green", "grey", "heather", "indigo", "ivory", "ivy", "khaki", "lavender", "lemon", "leopard", "light",
    "lilac", "lime", "magenta", "maroon", "mauve", "merlot", "midnight", "mint", "mocha", "multicolor", "mushroom",
    "mustard", "natural", "navy", "nude", "olive", "orange", "peach", "pewter", "pink", "plum", "purple", "rainbow",
    "red", "rose", "royal", "rust", "sand", "sapphire", "seashell", "silver", "skull", "slate", "steel", "stone",
    "stonewash", "sunflower", "tan", "taupe", "teal", "tiger", "turquoise", "violet", "walnut", "wheat", "white",
    "wine", "yellow",
)  # fmt: skip
"""The words that colour names are reduced to; the first one that a text contains counts."""

ENOUGH: Final = 85
"""Two texts match above this ratio."""

_LATIN_1 = dict.fromkeys(range(128, 256))
"""The letters that thefuzz drops before it compares."""

Option = str | tuple[str, str]


def score(
    product: Mapping[str, Any],
    goal: Mapping[str, Any],
    price: float,
    options: Mapping[str, str],
    *,
    purchased_nouns: Sequence[str],
    goal_nouns: Sequence[str],
) -> tuple[float, dict[str, Any]]:
    """Return the reward of a purchase, in [0, 1], and the original's details.

    Args:
        product: What was bought: `Title`, `Description`, `BulletPoints`, `Attributes`, `query`, `product_category`.
        goal: What was wanted: `attributes`, `goal_options`, `price_upper`, `query`, `product_category`.
        price: What it cost.
        options: The values that were chosen, by name.
        purchased_nouns: Nouns of the product's title, lower case.
        goal_nouns: Nouns of the goal's title.

    Returns:
        The reward, and `r_type`, `r_att`, `w_att`, `query_match`, `category_match`, `title_score`, `r_price`, `w_price`
        and, if the goal names options, `r_option` and `w_option`: the share of each part that is met, and its weight.
    """
    wanted, parts = _wanted(goal["goal_options"]), len(goal["attributes"]) + len(goal["goal_options"]) + 1
    kind = _type(product, goal, purchased_nouns, goal_nouns)
    attributes = sum(has_attribute(product, attribute) for attribute in goal["attributes"])
    chosen = [plain_color(value) for value in options.values()]
    matched = sum(any(alike(value, plain_color(option)) for value in chosen) for option in wanted)
    details = {
        **kind,
        "r_att": attributes / max(1, len(goal["attributes"])),
        "w_att": len(goal["attributes"]) / parts,
    }
    if wanted:
        details |= {"r_option": matched / len(wanted), "w_option": len(wanted) / parts}
    cheap = price <= goal["price_upper"] if goal["price_upper"] > 0 else None
    if cheap is not None:
        details |= {"r_price": cheap, "w_price": 1 / parts}
    return (attributes + matched + bool(cheap)) / parts * kind["r_type"], details


def _wanted(options: Mapping[str, str] | Sequence[str]) -> Sequence[Option]:
    """Return the options to match: of a synthetic goal the pairs of name and value, as the original compares them."""
    return list(options.items()) if isinstance(options, Mapping) else list(options)


def _type(
    product: Mapping[str, Any], goal: Mapping[str, Any], purchased_nouns: Sequence[str], goal_nouns: Sequence[str]
) -> dict[str, Any]:
    query_match = product["query"] == goal["query"]
    category_match = len(_path(product["product_category"]) & _path(goal["product_category"])) >= 2
    shared = len(set(purchased_nouns) & set(goal_nouns))
    title_score = shared / len(goal_nouns) if goal_nouns else 0.2
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        r_type = 0.1 if title_score else 0.0
    return {"r_type": r_type, "query_match": query_match, "category_match": category_match, "title_score": title_score}


@lru_cache(maxsize=4096)
def _path(category: str) -> frozenset[str]:
    return frozenset(part.strip() for part in category.split("›"))


def has_attribute(product: Mapping[str, Any], attribute: str) -> bool:
    """Tell whether a product has an attribute: among its own, or word for word in one of its texts."""
    return (
        any(alike(own, attribute) for own in product["Attributes"])
        or attribute in product["Title"].lower()
        or attribute in " ".join(product["BulletPoints"]).lower()
        or attribute in product["Description"].lower()
    )


@lru_cache(maxsize=65536)
def plain_color(option: Option) -> Option:
    """Reduce a colour to its plain word: `rose gold` to `gold`; anything else stays as it is.

    A pair of name and value is reduced only if one of the two is itself a plain colour.
    """
    return next((color for color in COLORS if color in option), option)


def alike(one: Option, other: Option) -> bool:
    """Tell whether two texts match."""
    return token_set_ratio(one, other) > ENOUGH


@lru_cache(maxsize=262144)
def token_set_ratio(one: Option, other: Option) -> int:
    """Compare two texts as sets of words, 0 to 100, as thefuzz does.

    Example:
        >>> token_set_ratio("machine wash", "machine washable"), token_set_ratio("8 oz", "oz 8 (pack)")
        (86, 100)
    """
    texts = (utils.default_process(str(text).translate(_LATIN_1)) for text in (one, other))
    return round(fuzz.token_set_ratio(*texts))
