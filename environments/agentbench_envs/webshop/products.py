"""What the shop sells, and what shoppers ask for, in the original's fields.

Products are made from entries of `items_shuffle*.json` as the original loads them (Yao et al. 2022, `load_products`).
Where the original would crash on an entry (no bullet point, no price after a dollar sign, null for a text), the nearest
thing that it handles is taken instead.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NotRequired, TypedDict

UNPRICED: Final = 100.0
"""What a product without a price costs."""

NO_ATTRIBUTES: Final = "DUMMY_ATTR"

_NOT_A_PRICE = re.compile(r"[^\d.]")


class Product(TypedDict):
    """One product."""

    asin: str
    Title: str
    Description: str
    BulletPoints: list[str]
    Price: str
    """As shown: `$9.99` or `$9.99 to $14.5`."""
    pricing: list[float]
    """One price, or the ends of a range."""
    options: dict[str, list[str]]
    """Values by name, all lower case."""
    Attributes: list[str]
    """Hidden from the shopper unless the session shows them."""
    Rating: str
    query: str
    category: str
    product_category: str
    """A path, `Beauty › Hair Care › Shampoo`."""


class Goal(TypedDict):
    """What a shopper wants."""

    asin: str
    """The product that the wish was written for."""
    category: str
    query: str
    name: str
    product_category: str
    instruction_text: str
    attributes: list[str]
    price_upper: float
    goal_options: dict[str, str] | list[str]
    """Synthetic goals name their options, human ones only list values."""
    weight: float
    family: NotRequired[str]
    """Goals of one family are so alike that they belong to the same split."""


def product_of(entry: Mapping[str, Any], attributes: Mapping[str, Any]) -> Product:
    """Read an entry of the original's product file.

    Args:
        entry: The product as scraped.
        attributes: Its entry in `items_ins_v2*.json`, empty if it has none.
    """
    bullets = entry.get("small_description")
    pricing = _pricing(entry.get("pricing"))
    return {
        "asin": entry["asin"],
        "Title": entry.get("name") or "",
        "Description": entry.get("full_description") or "",
        "BulletPoints": [bullet or "" for bullet in (bullets if isinstance(bullets, list) else [bullets])],
        "Price": " to ".join(f"${price}" for price in pricing),
        "pricing": pricing,
        "options": _options(entry.get("customization_options")),
        "Attributes": list(attributes.get("attributes", [NO_ATTRIBUTES])),
        "Rating": "N.A.",
        "query": (entry.get("query") or "").lower().strip(),
        "category": entry.get("category") or "",
        "product_category": entry.get("product_category") or "",
    }


def _pricing(text: str | None) -> list[float]:
    digits = [_NOT_A_PRICE.sub("", part) for part in (text or "").split("$")[1:]]
    found = [float(number) for number in digits if re.fullmatch(r"\d+(?:\.\d*)?|\.\d+", number)]
    return found[:2] or [UNPRICED]


def _options(customization: Mapping[str, Sequence[Mapping[str, Any]] | None] | None) -> dict[str, list[str]]:
    return {
        name.lower(): [content["value"].strip().replace("/", " | ").lower() for content in contents]
        for name, contents in (customization or {}).items()
        if contents is not None
    }


def document(product: Product) -> str:
    """Return the text by which a product is found."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product["options"].items())
    bullets = product["BulletPoints"]
    return " ".join([product["Title"], product["Description"], bullets[0] if bullets else "", options]).lower()
