"""Pages in a few dozen characters, for models of a million parameters.

The same shop and the same actions; a wish is written as its parts, products are numbered instead of named by asin, and
of a title only the attributes in it are shown.
"""

from agentbench_envs.webshop.pages import DonePage, IndexPage, ItemPage, Page, ResultsPage, SectionPage
from agentbench_envs.webshop.products import Goal, Product
from agentbench_envs.webshop.session import Session

SHOWN = 5
"""Products on a page that are written; the others can still be clicked."""


def compact(session: Session) -> str:
    """Write a session's page."""
    return f"want {wish(session.goal)}\n{_page(session.page)}"


def wish(goal: Goal) -> str:
    """Write a goal as its parts: what it is called, attributes, options, ceiling."""
    options = goal["goal_options"]
    values = options.values() if isinstance(options, dict) else options
    return "; ".join([goal["query"], *goal["attributes"], *values, f"<{goal['price_upper']:.0f}"])


def _page(page: Page) -> str:
    match page:
        case IndexPage():
            return "search"
        case ResultsPage():
            shown = enumerate(page.products[:SHOWN], start=1)
            return "\n".join([f"{number} {_named(product)} {_price(product)}" for number, product in shown] or ["none"])
        case ItemPage():
            lines = [f"{_named(page.product)} {_price(page.product)}"]
            lines += [_option(name, values, page.chosen.get(name)) for name, values in page.product["options"].items()]
            return "\n".join([*lines, "buy now"])
        case SectionPage():
            return "\n".join(page.lines())[:200]
        case DonePage():
            return f"done {page.reward:.2f}"


def _named(product: Product) -> str:
    title = product["Title"].lower()
    return ", ".join([product["query"], *(each for each in product["Attributes"] if each in title)])


def _price(product: Product) -> str:
    return f"${product['pricing'][0]:.0f}"


def _option(name: str, values: list[str], chosen: str | None) -> str:
    return f"{name}: " + " | ".join(f"*{value}" if value == chosen else value for value in values)
