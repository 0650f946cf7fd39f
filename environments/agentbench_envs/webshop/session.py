"""One shopper's visit: the state machine behind the text environment and the site.

Actions are `search[words]` and `click[something]`; whatever else is said, or clicked in vain, changes nothing. Rules
and addresses are those of the original's simulated server (Yao et al. 2022, code at 64fa2a5), with what follows from
them: searching works from every page, going back to the results forgets the chosen options, and a page is told from
its address, in which the words of a search can be mistaken for a page.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypedDict, cast

from agentbench.core.errors import UsageError
from agentbench_envs.webshop import pages
from agentbench_envs.webshop.pages import DonePage, IndexPage, ItemPage, Page, ResultsPage, SectionPage
from agentbench_envs.webshop.products import Goal, Product
from agentbench_envs.webshop.reward import score
from agentbench_envs.webshop.stock import Catalogue

HOST: Final = "http://127.0.0.1:3000"
PAGE_SIZE: Final = 10
FOUND: Final = 50
"""Products that a search returns at most."""

Mode = Literal["text", "text_rich"]

_KINDS: Final = ("search_results", "item_page", "item_sub_page", "done")


class Outcome(NamedTuple):
    """What an action led to."""

    observation: str
    reward: float
    done: bool


class Available(TypedDict):
    """What can be done on a page."""

    has_search_bar: bool
    clickables: list[str]


class Purchase(NamedTuple):
    """What was bought, and what that is worth."""

    product: Product
    options: dict[str, str]
    price: float
    reward: float
    details: dict[str, Any]


class Command(NamedTuple):
    """An action, taken apart."""

    verb: str
    argument: str | None


class Session:
    """A visit with one goal; it begins on the start page.

    Args:
        catalogue: The shop.
        goal: What is wanted: a goal, or the number of one of the catalogue's.
        mode: How pages are written.
        session_id: The visit's name in addresses; None takes the goal's number.
        show_attributes: Offer the page with a product's hidden attributes.

    Raises:
        UsageError: There is no such mode.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        goal: Goal | Mapping[str, Any] | int,
        mode: Mode = "text",
        *,
        session_id: str | None = None,
        show_attributes: bool = False,
    ) -> None:
        if mode not in ("text", "text_rich"):
            raise UsageError(f"found mode {mode!r}, expected 'text' or 'text_rich'")
        self.catalogue = catalogue
        self.goal = catalogue.goals[goal] if isinstance(goal, int) else cast(Goal, goal)
        self.mode = mode
        self.session_id = _name(catalogue, goal) if session_id is None else session_id
        self.sections = pages.SECTIONS if show_attributes else pages.SECTIONS[:3]
        self.reset()

    def reset(self) -> str:
        """Begin again on the start page."""
        self.keywords = ""
        self.number = 1
        self.found: list[str] = []
        self.product: Product | None = None
        self.chosen: dict[str, str] = {}
        self.visited: frozenset[str] = frozenset()
        self.purchase: Purchase | None = None
        return self._show(IndexPage(self._instruction), f"{HOST}/{self.session_id}")

    @property
    def available(self) -> Available:
        """What can be done here."""
        return {"has_search_bar": self.page.kind == "index", "clickables": list(self._clickables)}

    @property
    def _instruction(self) -> str:
        return self.goal["instruction_text"]

    def act(self, action: str) -> Outcome:
        """Play one action; one that cannot be played leaves everything as it is, for a reward of 0."""
        verb, argument = parse(action)
        if verb == "search" and argument:
            self._search(argument, 1)
        elif verb == "click" and argument is not None and argument != "search" and self._can_click(argument):
            self._click(argument)
        else:
            return Outcome(self.observation, 0.0, False)
        bought = isinstance(self.page, DonePage)
        return Outcome(self.observation, self.page.reward if isinstance(self.page, DonePage) else 0.0, bought)

    def can(self, action: str) -> bool:
        """Tell whether an action would be played."""
        verb, argument = parse(action)
        return bool(argument) and (
            verb == "search" or (verb == "click" and argument != "search" and self._can_click(str(argument)))
        )

    def _can_click(self, name: str) -> bool:
        return name in self._clickables

    def _click(self, name: str) -> None:
        here = next((kind for kind in _KINDS if kind in self.url), "")
        if name == pages.BUY.lower():
            self._buy()
        elif name == pages.BACK.lower():
            self.reset()
        elif name == pages.NEXT.lower() and here == "search_results":
            self._results(self.number + 1)
        elif name == pages.PREVIOUS.lower() and here == "search_results":
            self._results(self.number - 1)
        elif name == pages.PREVIOUS.lower() and here == "item_page":
            self._results(self.number)
        elif name in (section.lower() for section in pages.SECTIONS):
            self._section(name.capitalize())
        else:
            self._item(name)

    def _search(self, words: str, number: int) -> None:
        self.keywords = words
        self.found = [asin for asin, _ in self.catalogue.index.search(words, FOUND)]
        self._results(number)

    def _results(self, number: int) -> None:
        self.number, self.product, self.chosen = number, None, {}
        shown = [self.catalogue.products[asin] for asin in self.found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]]
        page = ResultsPage(self._instruction, self.keywords, number, len(self.found), shown, self.visited)
        self._show(page, f"{HOST}/search_results/{self.session_id}/{self._plus}/{number}")

    def _item(self, name: str) -> None:
        """Open a product, choose an option, or come back from a section."""
        page = self.page
        if isinstance(page, ResultsPage):
            self.product = next(product for product in page.products if product["asin"].lower() == name)
            self.visited |= {self.product["asin"]}
        elif isinstance(page, ItemPage):
            # As in a form: of several options with one value the last one is chosen.
            options = page.product["options"]
            name_of_option = next((key for key in reversed(options) if name in options[key]), None)
            if name_of_option is not None:
                self.chosen = {**self.chosen, name_of_option: name}
        product = self._product
        url = (
            f"{HOST}/item_page/{self.session_id}/{product['asin']}/{self._plus}/{self.number}/{json.dumps(self.chosen)}"
        )
        self._show(ItemPage(self._instruction, product, self.chosen, self.sections), url)

    def _section(self, section: str) -> None:
        product = self._product
        place = f"{self.session_id}/{product['asin']}/{self._plus}/{self.number}/{section}/{self.chosen}"
        self._show(SectionPage(self._instruction, product, section), f"{HOST}/item_sub_page/{place}")

    def _buy(self) -> None:
        product = self._product
        price = self.catalogue.prices[product["asin"]]
        reward, details = self.appraise(product, self.chosen)
        self.purchase = Purchase(product, self.chosen, price, reward, details)
        page = DonePage(self._instruction, product, self.chosen, reward)
        self._show(page, f"{HOST}/done/{self.session_id}/{product['asin']}/{self.chosen}")

    def appraise(self, product: Product, options: Mapping[str, str]) -> tuple[float, dict[str, Any]]:
        """Return the reward that buying a product with these options would have, and its details."""
        return score(
            product,
            self.goal,
            self.catalogue.prices[product["asin"]],
            options,
            purchased_nouns=self.catalogue.nouns(product["Title"]),
            goal_nouns=self.catalogue.nouns(self.goal["name"]),
        )

    @property
    def _product(self) -> Product:
        assert self.product is not None
        return self.product

    @property
    def _plus(self) -> str:
        return self.keywords.replace(" ", "+")

    def _show(self, page: Page, url: str) -> str:
        nodes = pages.visible(page)
        self.page, self.url, self._clickables = page, url, pages.clickables(page, nodes)
        self.observation = pages.text(nodes) if self.mode == "text" else pages.rich(nodes, url, self.visited)
        return self.observation


def parse(action: str) -> Command:
    r"""Take an action apart: everything before its last bracket, and what that bracket holds, in lower case.

    The original's pattern `(.+)\[(.+)\]`, on the first line and in linear time.

    Example:
        >>> parse("click[Buy Now]"), parse("search")
        (Command(verb='click', argument='buy now'), Command(verb='search', argument=None))
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, end - 1) if end > 2 else -1
    if start < 0:
        return Command(action, None)
    return Command(line[:start], line[start + 1 : end].lower())


def _name(catalogue: Catalogue, goal: Goal | Mapping[str, Any] | int) -> str:
    """Return a goal's number among the catalogue's, or among people's beside them: the original's name of a session."""
    if isinstance(goal, int):
        return str(goal)
    number = _number(catalogue.goals, goal)
    if number is None:
        number = _number(catalogue.more_goals(), goal)
    return "goal" if number is None else str(number)


def _number(goals: Sequence[Goal], goal: Goal | Mapping[str, Any]) -> int | None:
    return next((number for number, known in enumerate(goals) if known == goal), None)
