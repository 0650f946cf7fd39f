"""WebShop in words: pages as text, actions as `search[words]` and `click[something]`.

The shop is `session.Session`; this file adds the contract of an environment, the protocol around it, and what the info
says beyond the original: `potential` is what buying the open product with the chosen options would pay, and the terms
follow its parts from turn to turn.
"""

import hashlib
from typing import Any, Final

from agentbench.core.env import Env, Step
from agentbench.core.errors import UsageError
from agentbench_envs.webshop.goals import Kind
from agentbench_envs.webshop.oracle import plan
from agentbench_envs.webshop.pages import DonePage, ResultsPage
from agentbench_envs.webshop.protocols import protocol as find_protocol
from agentbench_envs.webshop.session import HOST, Mode, Outcome, Session, parse
from agentbench_envs.webshop.shop import Stock, open_shop
from agentbench_envs.webshop.splits import content_of

PARTS: Final = {"type": "r_type", "attributes": "r_att", "options": "r_option", "price": "r_price"}
"""The terms that follow a purchase's parts, and the details that hold them."""

SHOWN: Final = 60
"""Characters of an illegal action that the answer repeats."""

LONGEST_ANCHOR: Final = 500
"""Characters of an address in the info."""


class WebShopEnv(Env):
    """Find and buy what the instruction asks for.

    Args:
        products: Size of the synthetic catalogue; of genuine files, how many products to take (0: all).
        catalogue_seed: Which synthetic catalogue.
        data: Folder (or product file) of a genuine catalogue.
        goals: `synthetic` or `human` goals, of a genuine catalogue.
        protocol: How pages are shown, and what is legal, see `protocols`.
        mode: `text` or `text_rich`, the original's two ways to write a page.
        explain: Say in words what was wrong with an illegal action; the original just shows the page again.
        cache: Where catalogues that are kept on disk go; None is the user's cache folder.
        split: `train`, `valid` or `test`.

    Raises:
        UsageError: An argument makes no sense, or a file is missing or wrong.
    """

    def __init__(
        self,
        *,
        products: int | None = None,
        catalogue_seed: int = 0,
        data: str | None = None,
        goals: Kind = "synthetic",
        protocol: str = "original",
        mode: Mode = "text",
        explain: bool = True,
        cache: str | None = None,
        split: str = "train",
    ) -> None:
        if mode not in ("text", "text_rich"):
            raise UsageError(f"found mode {mode!r}, expected 'text' or 'text_rich'")
        size = (1000 if data is None else 0) if products is None else products
        self.protocol = find_protocol(protocol)
        self.mode: Mode = mode
        self.explain = explain
        self.shop = open_shop(Stock(size, catalogue_seed, data, goals, cache))
        self._tasks = self.shop.tasks(split)
        self.task_count = len(self._tasks)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Decides the goal: its place in the split, modulo the split's length.
            options: `goal`: the number of a goal of the catalogue to play instead.

        Raises:
            UsageError: An unknown option, or no such goal.
        """
        super().reset(seed=seed)
        self.session = self._enter(Session(self.shop.catalogue, self._goal(seed, options or {}), self.mode))
        self._parts = dict.fromkeys(PARTS, 0.0)
        info = self._info(valid=True, terms={})
        info["goal"] = self.session.goal["instruction_text"]
        return self._show(), info

    def _enter(self, session: Session) -> Session:
        """Begin a visit; another face of the shop opens its page here."""
        return session

    def _show(self) -> str:
        return self.protocol.show(self.session)

    def _goal(self, seed: int | None, options: dict[str, Any]) -> int:
        unknown = options.keys() - {"goal"}
        if unknown:
            raise UsageError(f"unknown option {', '.join(map(repr, unknown))}; expected goal")
        if "goal" in options:
            count = len(self.shop.catalogue.goals)
            if not isinstance(options["goal"], int) or not 0 <= options["goal"] < count:
                raise UsageError(f"found goal {options['goal']!r}, expected a number below {count}")
            return int(options["goal"])
        if seed is None:
            seed = int(self.np_random.integers(2**63))
        return int(self._tasks[seed % len(self._tasks)])

    def step(self, action: str) -> Step:
        """Play one action; an illegal one changes nothing, as the card says."""
        played = self._numbered(action)
        before = self._parts
        valid, outcome = self._play(played)
        self._parts = self._progress()
        terms = {name: self._parts[name] - before[name] for name in PARTS}
        terms |= {"score": outcome.reward, "won": float(outcome.reward == 1.0), "illegal": float(not valid)}
        shown = self._show()
        if not valid and self.explain:
            shown = f"{self._complain(action)}\n{shown}"
        info = self._info(valid=valid, terms=terms)
        info["success"] = outcome.reward == 1.0
        return Step(shown, self._native(terms), outcome.done, False, info)

    def _play(self, action: str) -> tuple[bool, Outcome]:
        """Play an action, and tell whether it was legal."""
        return self._legal(action), self.session.act(action)

    def _native(self, terms: dict[str, float]) -> float:
        return self.protocol.win * terms["won"] + self.protocol.graded * terms["score"]

    def _numbered(self, action: str) -> str:
        """Replace a product's number on the page by its name, where the protocol numbers them."""
        page, (verb, argument) = self.session.page, parse(action)
        if not (self.protocol.numbered and isinstance(page, ResultsPage) and verb == "click" and argument):
            return action
        numbers = {str(number): product["asin"] for number, product in enumerate(page.products, start=1)}
        return f"click[{numbers[argument]}]" if argument in numbers else action

    def _legal(self, action: str) -> bool:
        if not self.session.can(action):
            return False
        anywhere = self.protocol.search_anywhere or self.session.available["has_search_bar"]
        return anywhere or parse(action).verb != "search"

    def _complain(self, action: str) -> str:
        found = repr(action if len(action) <= SHOWN else action[:SHOWN] + "...")
        return f"Found {found}, expected search[words], or click[...] with something that can be clicked here."

    def _progress(self) -> dict[str, float]:
        """Return the parts of what buying now would pay, each in [0, 1]; 0 where no product is open."""
        details = self._appraisal()[1]
        # A goal without options has nothing left to choose.
        return {name: float(details.get(key, bool(details))) for name, key in PARTS.items()}

    def _appraisal(self) -> tuple[float, dict[str, Any]]:
        session = self.session
        if session.purchase is not None:
            return session.purchase.reward, session.purchase.details
        return (0.0, {}) if session.product is None else session.appraise(session.product, session.chosen)

    def _info(self, *, valid: bool, terms: dict[str, float]) -> dict[str, Any]:
        session = self.session
        bought = isinstance(session.page, DonePage)
        here = session.available
        info: dict[str, Any] = {
            "success": False,
            "valid": valid,
            "terms": terms,
            "potential": 0.0 if bought else self._appraisal()[0],
            "anchor": _shorten(session.url.removeprefix(f"{HOST}/")),
            "admissible": ["search[words]"] * here["has_search_bar"]
            + [f"click[{name}]" for name in here["clickables"] if name != "search"],
            "page": session.page.kind,
        }
        if session.purchase is not None:
            info |= {"score": session.purchase.reward, "asin": session.purchase.product["asin"],
                     "details": session.purchase.details}  # fmt: skip
        return info

    def oracle(self) -> list[str]:
        """Return actions that buy a best product from here.

        Raises:
            Unsolvable: No search finds it.
        """
        return plan(self.session, numbered=self.protocol.numbered)

    def content(self, seed: int) -> str:
        """Name the goal of a seed."""
        return content_of(self.shop.catalogue.goals[self._goal(seed, {})])

    def random_action(self) -> str:
        """Click anything, or search for some words of the instruction where there is a search box."""
        session = self.session
        if session.available["has_search_bar"]:
            words = session.goal["instruction_text"].replace("[", " ").replace("]", " ").split()
            start = int(self.action_random.integers(len(words)))
            return f"search[{' '.join(words[start : start + 3])}]"
        names = session.available["clickables"]
        return f"click[{names[int(self.action_random.integers(len(names)))]}]" if names else "click[buy now]"


def _shorten(place: str) -> str:
    """Keep an address in bounds, however long the search in it is; equal ones stay equal."""
    if len(place) <= LONGEST_ANCHOR:
        return place
    digest = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{place[:LONGEST_ANCHOR]}...{digest[:16]}"
