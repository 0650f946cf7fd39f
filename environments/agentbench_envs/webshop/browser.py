"""WebShop in a real browser: the site's pages, opened in Chromium and played by clicking on them.

The visit is the text environment's (`session.Session`, behind `site`), so the same actions give the same trajectory;
what is observed is read from the page that the browser shows, and what is played is played on that page. One session
and one page per episode, closed with it; browser and site are shared by the environments of a process.
"""

from typing import Any, Final, Literal

from agentbench.core.errors import UsageError
from agentbench.sandbox.browser import Browser, Element, Look, Page
from agentbench_envs.webshop import native, pages
from agentbench_envs.webshop.env import SHOWN, WebShopEnv
from agentbench_envs.webshop.markup import BOX
from agentbench_envs.webshop.pages import DonePage, Node
from agentbench_envs.webshop.session import Outcome, Session, parse
from agentbench_envs.webshop.site import SITES, Guest, Site, Visit

Actions = Literal["text", "native"]
View = Literal["text", "tree", "screenshot"]

ACTIONS: Final = ("text", "native")
VIEWS: Final = ("text", "tree", "screenshot")

_READ = """() => ({
  nodes: [...document.querySelectorAll('[data-piece]')]
    .sort((one, other) => one.dataset.piece - other.dataset.piece)
    .map(element => [element.textContent, element.dataset.role]),
  scroll: Math.round(window.scrollY),
  height: document.documentElement.scrollHeight,
  typed: document.querySelector('input')?.value ?? '',
  offered: document.querySelector('input')?.defaultValue ?? '',
  address: location.href,
})"""
_FIND = "name => [...document.querySelectorAll('button[name=click]')].find(button => button.value === name)?.id"


class WebShopBrowserEnv(WebShopEnv):
    """Find and buy what the instruction asks for, in a browser.

    Args:
        actions: `text` takes `search[...]` and `click[...]`, `native` what a browser can do, see `native`.
        view: The observation: `text` as in the text environment, `tree` the accessibility tree, `screenshot` a PNG in
            `info["image"]`.
        width: Of the window, in pixels.
        height: Of the window, in pixels.
        dark: Ask for the page's dark colours.
        patience: Seconds that the browser may take for anything before it counts as hung.
        shop: What `WebShopEnv` takes.

    Raises:
        UsageError: An argument makes no sense.
    """

    def __init__(
        self,
        *,
        actions: Actions = "text",
        view: View = "text",
        width: int = 1280,
        height: int = 720,
        dark: bool = False,
        patience: float = 60.0,
        **shop: Any,
    ) -> None:
        if actions not in ACTIONS:
            raise UsageError(f"found actions {actions!r}, expected 'text' or 'native'")
        if view not in VIEWS:
            raise UsageError(f"found view {view!r}, expected 'text', 'tree' or 'screenshot'")
        if not (200 <= width <= 4000 and 200 <= height <= 4000):
            raise UsageError(f"found a window of {width} x {height} pixels, expected 200 to 4000 each")
        super().__init__(**shop)
        self.actions, self.view = actions, view
        self._look = Look(width, height, dark)
        self._patience = patience
        self._site: Site | None = None
        self._browser: Browser | None = None
        self._guest: Guest | None = None
        self._visit: Visit | None = None
        self._page: Page | None = None

    def _enter(self, session: Session) -> Session:
        """Open the site, and on it a page of the browser."""
        self._leave()
        if self._site is None:
            self._site = SITES.acquire()
        if self._browser is not None and self._browser.broken:
            self._browser.close()
            self._browser = None
        if self._browser is None:
            self._browser = Browser()
        self._visit = self._site.open(session)
        if self._guest is not None:
            self._guest.enter(self._visit)
        self._prefix = f"{self._site.address}{self._visit.path}"
        self._page = self._browser.open(self._prefix, look=self._look, patience=self._patience)
        self._page.goto(f"{self._prefix}0")
        self._blocked = 0
        return self._read()

    @property
    def _open_page(self) -> Page:
        assert self._page is not None, "reset opens the page"
        return self._page

    def _read(self) -> Session:
        """Take in what the browser shows; return the visit's session, whose observation is what was read."""
        assert self._visit is not None
        self._seen = self._open_page.evaluate(_READ)
        self._elements: list[Element] | None = None
        session = self._visit.session
        nodes = [Node(text, role) for text, role in self._seen["nodes"]]
        session.observation = (
            pages.text(nodes) if self.mode == "text" else pages.rich(nodes, session.url, session.visited)
        )
        return session

    def _tree(self) -> list[Element]:
        if self._elements is None:
            self._elements = self._open_page.tree()
        return self._elements

    def _show(self) -> str:
        if self.view == "text":
            return super()._show()
        if self.view == "tree":
            return native.written(self._tree(), self._address)
        return (
            f"The picture shows page {self._address[: native.LONGEST]}: {self._look.height} of its "
            f"{max(self._seen['height'], self._look.height)} pixels, from {self._seen['scroll']} on."
        )

    @property
    def _address(self) -> str:
        return f"/{self._seen['address'].removeprefix(self._prefix)}"

    def _play(self, action: str) -> tuple[bool, Outcome]:
        valid = self._browse(action) if self.actions == "native" else self._play_text(action)
        if self._guest is not None:
            self._guest.answer()
        page = self.session.page
        bought = isinstance(page, DonePage)
        return valid, Outcome(self.session.observation, page.reward if isinstance(page, DonePage) else 0.0, bought)

    def _play_text(self, action: str) -> bool:
        """Do on the page what the action says; what the page does not offer changes nothing."""
        valid = self._legal(action)
        if self.session.can(action):
            verb, argument = parse(action)
            if verb == "search":
                self._open_page.fill(f'[aria-label="{BOX}"]', _one_line(argument or ""))
                self._open_page.click("form[role=search] button")
            else:
                self._open_page.click(f"#{self._open_page.evaluate(_FIND, argument)}")
            self.session = self._read()
        return valid

    def _browse(self, action: str) -> bool:
        """Do what a person could do; tell whether it could be done."""
        deed = native.deed(action)
        done = deed is not None and self._do(deed)
        if done:
            self.session = self._read()
        return done

    def _do(self, deed: native.Deed) -> bool:
        page = self._open_page
        match deed.verb:
            case "click" | "type":
                element = native.find(
                    self._tree(), deed.target, native.CLICKABLE if deed.verb == "click" else native.BOXES
                )
                if element is None:
                    return False
                if deed.verb == "click":
                    page.click(f"#{element.id}")
                else:
                    page.fill(f"#{element.id}", _one_line(deed.words))
                return True
            case "scroll":
                if deed.target not in ("down", "up"):
                    return False
                page.scroll((1 if deed.target == "down" else -1) * self._look.height // 2)
                return True
            case "back":
                return page.back()
            case _:
                return page.goto(self._prefix + deed.target[1:] if deed.target.startswith("/") else deed.target)

    def _complain(self, action: str) -> str:
        if self.actions == "text":
            return super()._complain(action)
        found = repr(action if len(action) <= SHOWN else action[:SHOWN] + "...")
        return (
            f"Found {found}, expected click[...], type[...][words], scroll[down], scroll[up], back or goto[...] "
            "with something that is on this page."
        )

    def _info(self, *, valid: bool, terms: dict[str, float]) -> dict[str, Any]:
        info = super()._info(valid=valid, terms=terms)
        blocked = self._open_page.blocked
        if len(blocked) > self._blocked:
            info["blocked"] = [address[:SHOWN] for address in blocked[self._blocked :]]
            self._blocked = len(blocked)
        if self.view == "screenshot":
            info["image"] = self._open_page.screenshot()
        if self.actions == "native":
            info["admissible"] = self._possible()
            if self._seen["typed"] != self._seen["offered"] or self._seen["scroll"]:
                info["anchor"] += f" {self._seen['typed'][:SHOWN]!r} at {self._seen['scroll']}"
        return info

    def _possible(self) -> list[str]:
        """Return an action for everything that can be used, and those that are always there."""
        usable = [element for element in self._tree() if element.id and element.role in native.CLICKABLE]
        named = [
            f"type[{element.id}][words]" if element.role in native.BOXES else f"click[{element.id}]"
            for element in usable
        ]
        return [*named, "scroll[down]", "scroll[up]", "back"]

    def oracle(self) -> list[str]:
        """Return actions that buy a best product from here.

        Raises:
            Unsolvable: No search finds it.
        """
        plan = super().oracle()
        if self.actions == "text":
            return plan
        return [step for action in plan for step in native.translated(action)]

    def random_action(self) -> str:
        """Do anything that the page offers; type words of the instruction where there is a box."""
        if self.actions == "text":
            return super().random_action()
        possible = self._possible()
        action = possible[int(self.action_random.integers(len(possible)))]
        words = self.session.goal["instruction_text"].replace("[", " ").replace("]", " ").split()
        start = int(self.action_random.integers(len(words)))
        return action.replace("[words]", f"[{' '.join(words[start : start + 3])}]")

    def invite(self) -> str:
        """Return the address of a page on which a person can play the episodes of this environment.

        Raises:
            UsageError: The actions are not the text environment's, which is what a person's clicks are written as.
        """
        if self.actions != "text":
            raise UsageError("a person plays webshop/browser, where clicks are written as click[...]")
        assert self._site is not None
        assert self._visit is not None
        if self._guest is None:
            self._guest = self._site.invite()
            self._guest.enter(self._visit)
        return f"{self._site.address}/with/{self._guest.key}"

    def asked(self) -> str | None:
        """Return what the person wants to do next; None while nothing was clicked."""
        assert self._guest is not None, "nobody was invited"
        return self._guest.asked.popleft() if self._guest.asked else None

    def _leave(self) -> None:
        page, self._page = self._page, None
        if page is not None:
            page.close()
        visit, self._visit = self._visit, None
        if visit is not None and self._site is not None:
            self._site.visits.pop(visit.key, None)

    def close(self) -> None:
        """Close page and visit, and give up the shares of browser and site. Idempotent."""
        self._leave()
        browser, self._browser = self._browser, None
        site, self._site = self._site, None
        if browser is not None:
            browser.close()
        if site is not None:
            if self._guest is not None:
                site.guests.pop(self._guest.key, None)
            SITES.release(site)


def _one_line(words: str) -> str:
    """Keep words apart that a box for one line would join."""
    return words.replace("\r", " ")
