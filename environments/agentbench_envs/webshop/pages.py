"""The shop's pages as data, and what they look like as text.

A page knows what it shows; `text` and `rich` write that as the original's two text observations, and a site can write
the same data as HTML. The original's observations are what BeautifulSoup finds in its templates, so a few things follow
from HTML: a text of nothing but blanks is one blank, or not there if it holds a line break, as an empty one is not.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from agentbench_envs.webshop.products import Product

SEPARATOR: Final = " [SEP] "
BACK: Final = "Back to Search"
PREVIOUS: Final = "< Prev"
NEXT: Final = "Next >"
BUY: Final = "Buy Now"
SEARCH: Final = "Search"
SECTIONS: Final = ("Description", "Features", "Reviews", "Attributes")

Role = Literal["text", "button", "link", "option"]


class Node(NamedTuple):
    """A piece of a page: words to read, or something to click."""

    text: str
    role: Role = "text"


@dataclass(frozen=True, slots=True)
class IndexPage:
    """The start: a search box."""

    instruction: str
    kind: Literal["index"] = "index"

    def nodes(self) -> Iterator[Node]:
        """Yield the page's pieces, in reading order."""
        yield from (Node("WebShop"), Node("Instruction: "), Node(self.instruction), Node(SEARCH, "button"))


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Ten of the products that a search found."""

    instruction: str
    keywords: str
    number: int
    total: int
    products: Sequence[Product]
    visited: frozenset[str] = frozenset()
    """Products that were looked at since the last return to the start."""
    kind: Literal["search_results"] = "search_results"

    def nodes(self) -> Iterator[Node]:
        """Yield the page's pieces, in reading order."""
        yield from (Node("Instruction:"), Node(self.instruction), Node(BACK, "button"))
        yield Node(f"Page {self.number} (Total results: {self.total})")
        if self.number > 1:
            yield Node(PREVIOUS, "button")
        yield Node(NEXT, "button")
        for product in self.products:
            yield from (Node(product["asin"], "link"), Node(product["Title"]), Node(product["Price"]))


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One product, its options, and the button that buys it."""

    instruction: str
    product: Product
    chosen: Mapping[str, str] = field(default_factory=dict)
    sections: Sequence[str] = SECTIONS[:3]
    kind: Literal["item_page"] = "item_page"

    def nodes(self) -> Iterator[Node]:
        """Yield the page's pieces, in reading order."""
        yield from (Node("Instruction:"), Node(self.instruction), Node(BACK, "button"), Node(PREVIOUS, "button"))
        for name, values in self.product["options"].items():
            yield Node(name)
            yield from (Node(value, "option") for value in values)
        yield Node(self.product["Title"])
        yield from (Node(f"Price: {self.product['Price']}"), Node(f"Rating: {self.product['Rating']}"))
        yield from (Node(section, "button") for section in (*self.sections, BUY))


@dataclass(frozen=True, slots=True)
class SectionPage:
    """More about a product: its description, features, reviews or attributes."""

    instruction: str
    product: Product
    section: str
    kind: Literal["item_sub_page"] = "item_sub_page"

    def nodes(self) -> Iterator[Node]:
        """Yield the page's pieces, in reading order."""
        yield from (Node("Instruction:"), Node(self.instruction), Node(BACK, "button"), Node(PREVIOUS, "button"))
        yield from map(Node, self.lines())

    def lines(self) -> list[str]:
        """Return what the section says; there are no reviews."""
        product = self.product
        match self.section:
            case "Description":
                return [product["Description"]]
            case "Features":
                return [f" {bullet}" for bullet in product["BulletPoints"]]
            case "Attributes":
                more = [product["category"], product["query"], product["product_category"]]
                return [*(f" {attribute}" for attribute in product["Attributes"]), *more]
            case _:
                return []


@dataclass(frozen=True, slots=True)
class DonePage:
    """The end: what was bought, and the score."""

    instruction: str
    product: Product
    chosen: Mapping[str, str]
    reward: float
    kind: Literal["done"] = "done"

    def nodes(self) -> Iterator[Node]:
        """Yield the page's pieces, in reading order; the original leaves most fields of its form empty."""
        options = json.dumps(self.chosen, sort_keys=True)
        for character in "<>&'":
            options = options.replace(character, f"\\u{ord(character):04x}")
        yield from map(Node, ("Thank you for shopping with us!", "Your code: ", "None"))
        yield Node(" (Paste it in your MTurk interface.)")
        yield from map(Node, ("Purchased", "asin", self.product["asin"], "options", options, "attrs", "None"))
        yield from map(Node, ("category", "None", "query", "None", "product category", "None"))
        yield from map(Node, ("Target", "asin", "options", "attrs", "price upper", "instuction text", "category"))
        yield from map(Node, ("product category", "query", "Goal ", "None", "Reward"))
        yield from map(Node, ("Your score (min 0.0, max 1.0)", str(self.reward), "Reward Details ", "None"))


Page = IndexPage | ResultsPage | ItemPage | SectionPage | DonePage


def visible(page: Page) -> list[Node]:
    """Return the pieces of a page that a reader of its HTML finds."""
    return [node for node in page.nodes() if node.text and not ("\n" in node.text and _blank(node.text))]


def _blank(words: str) -> bool:
    """Tell whether a text is nothing but blanks, as there are between two tags."""
    return not words.strip(" \n\t\f\r")


def text(nodes: Sequence[Node]) -> str:
    """Write a page in one line, its pieces separated by [SEP].

    Args:
        nodes: What is visible of it.
    """
    return SEPARATOR.join([node.text.strip() for node in nodes])


def rich(nodes: Sequence[Node], url: str, visited: frozenset[str]) -> str:
    """Write a page in lines, with its buttons marked, and those that were clicked before.

    Args:
        nodes: What is visible of it.
        url: Its address. The original looks for an option's value there to tell whether it was clicked.
        visited: Products that were looked at.
    """
    clicked, lines = [], []
    for node in nodes:
        shown = " " if _blank(node.text) else node.text
        if node.role == "button":
            shown = f"[button] {shown} [button_]"
        elif node.role == "option" and f'"{shown}"' in url:
            clicked.append(f"You have clicked {shown}.")
            shown = f"  [clicked button] {shown} [clicked button_]"
        elif node.role == "option":
            shown = f"  [button] {shown} [button_]"
        elif node.role == "link":
            mark = "clicked button" if shown in visited else "button"
            shown = f"\n[{mark}] {shown} [{mark}_]"
        lines.append(shown)
    return "".join(f"{line}\n" for line in [*reversed(clicked), *lines])


def clickables(page: Page, nodes: Sequence[Node]) -> list[str]:
    """Return what may be clicked: buttons first, then products, then options; each once, buttons in lower case.

    Args:
        page: The page.
        nodes: What is visible of it.
    """
    found = [node.text.lower() for role in ("button", "link") for node in nodes if node.role == role]
    if isinstance(page, ItemPage):
        found += [value for values in page.product["options"].values() for value in values]
    return list(dict.fromkeys(found))
