"""A shopper who knows the goal: finds a best product and buys it with the right options."""

from collections.abc import Iterator

from agentbench.core.errors import Unsolvable
from agentbench_envs.webshop.pages import IndexPage, ItemPage, ResultsPage, SectionPage
from agentbench_envs.webshop.products import Product
from agentbench_envs.webshop.reward import alike, plain_color
from agentbench_envs.webshop.session import PAGE_SIZE, Session


def plan(session: Session, *, numbered: bool = False) -> list[str]:
    """Return actions that buy a best product from the present page.

    The product that the goal was written for is a best one, unless no choice of its options is worth the full reward;
    then what a search for the instruction finds is looked at too. It is searched for by the words of the goal, if these
    bring it onto the first page, so that the plan can be imitated; else by its title, which the shopper cannot know.

    Args:
        session: A visit that goes on.
        numbered: Click products by their number on the page instead of by name.

    Raises:
        Unsolvable: No search finds the product.
    """
    product, options = _best(session)
    return [*_reach(session, product, numbered), *_choose(session, product, options), "click[buy now]"]


def _best(session: Session) -> tuple[Product, dict[str, str]]:
    goal = session.goal
    best, options = session.catalogue.products[goal["asin"]], {}
    options = right_options(session, best)
    worth, _ = session.appraise(best, options)
    if worth < 1:
        for product in session.catalogue.search(goal["instruction_text"]):
            other = right_options(session, product)
            value, _ = session.appraise(product, other)
            if value > worth:
                best, options, worth = product, other, value
    return best, options


def right_options(session: Session, product: Product) -> dict[str, str]:
    """Return the values of a product's options that fulfil the goal's, as far as there are any."""
    wanted = session.goal["goal_options"]
    pairs = list(wanted.items()) if isinstance(wanted, dict) else [(None, value) for value in wanted]
    right: dict[str, str] = {}
    for name, value in pairs:
        exact = [(key, value) for key, values in product["options"].items() if value in values and name in (None, key)]
        target = plain_color(value if name is None else (name, value))
        near = [
            (key, each)
            for key, values in product["options"].items()
            for each in values
            if alike(plain_color(each), target)
        ]
        found = next(((key, each) for key, each in [*exact, *near] if key not in right), None)
        if found is not None:
            right[found[0]] = found[1]
    return right


def _reach(session: Session, product: Product, numbered: bool) -> list[str]:
    """Return the way to a product's page."""
    page, asin = session.page, product["asin"]
    if isinstance(page, ItemPage | SectionPage) and page.product["asin"] == asin:
        return ["click[< prev]"] if isinstance(page, SectionPage) else []
    if isinstance(page, ResultsPage):
        here = [each["asin"] for each in page.products]
        if asin in here:
            return [_open(asin, here.index(asin), numbered)]
    home = [] if isinstance(page, IndexPage) else ["click[back to search]"]
    words, rank = _search(session, product)
    return [
        *home,
        f"search[{words}]",
        *["click[next >]"] * (rank // PAGE_SIZE),
        _open(asin, rank % PAGE_SIZE, numbered),
    ]


def _open(asin: str, place: int, numbered: bool) -> str:
    return f"click[{place + 1}]" if numbered else f"click[{asin.lower()}]"


def _search(session: Session, product: Product) -> tuple[str, int]:
    """Return words that find a product, and its place among the results."""
    tried = []
    for words in _queries(session, product):
        found = [asin for asin, _ in session.catalogue.index.search(words)]
        if product["asin"] in found:
            rank = found.index(product["asin"])
            if rank < PAGE_SIZE:
                return words, rank
            tried.append((rank, words))
    if not tried:
        raise Unsolvable(f"no search finds {product['asin']}")
    rank, words = min(tried)
    return words, rank


def _queries(session: Session, product: Product) -> Iterator[str]:
    goal = session.goal
    options = goal["goal_options"]
    values = options.values() if isinstance(options, dict) else options
    about = " ".join([*goal["attributes"], goal["query"]])
    # An action ends with the line, and at its last bracket.
    for words in (
        about,
        f"{about} {' '.join(values)}",
        product["Title"],
        f"{product['Title']} {product['Description']}",
    ):
        clean = " ".join(words.replace("[", " ").replace("]", " ").split())
        if clean:
            yield clean


def _choose(session: Session, product: Product, options: dict[str, str]) -> list[str]:
    page = session.page
    chosen = page.chosen if isinstance(page, ItemPage) and page.product["asin"] == product["asin"] else {}
    return [f"click[{value}]" for name, value in options.items() if chosen.get(name) != value]
