"""A real browser for the pages of an environment: Chromium, driven by Playwright. The only home of both.

A process has one Chromium, started for the first episode that needs it and ended after the last. Every episode has a
page in a context of its own: episodes share no cookie, no history and no cache. Playwright's event loop runs on a
thread of its own; the methods here are synchronous.

A page is bound to one site. A request that leads anywhere else is answered with nothing (the page stays) and recorded.
Scripts of pages do not run. Whatever breaks is infrastructure: a page that crashed, a browser that is gone or does not
answer in time raises `Failure`. A browser that does not end is killed with all its processes, and the next episode
starts another.
"""

import asyncio
import atexit
import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from agentbench.core.errors import Failure, PrerequisiteError
from agentbench.sandbox.chromium import folders, processes, remove, sweep
from agentbench.sandbox.shared import Shared

T = TypeVar("T")

VARIABLE: Final = "AGENTBENCH_CHROMIUM"
"""Names the Chromium to use."""
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES: Final = ("playwright", "starlette", "uvicorn")
CONTAINER: Final = "AGENTBENCH_CONTAINER"
"""Set in our images: the container is the sandbox, and Chromium's own cannot be had inside it."""

FLAGS: Final = (
    "--disable-gpu",
    "--no-proxy-server",
    # Beside the check of every request: no name is looked up, so nothing beyond this machine can be found.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
LONGEST_SHOWN: Final = 10_000
"""Characters of a box that are laid out; a megabyte of joined letters keeps Chromium busy for minutes."""
_PUT: Final = "(box, text) => { box.style.contentVisibility = 'hidden'; box.value = text; }"
START_SECONDS: Final = 90.0
CLOSE_SECONDS: Final = 10.0
SOCKET_TRIES: Final = 40


def program() -> str | None:
    """Return the path of the Chromium to use, or None."""
    named = os.environ.get(VARIABLE)
    return next((found for name in ([named] if named else PROGRAMS) if (found := shutil.which(name))), None)


def missing() -> str | None:
    """Say what a browser environment lacks here and how to get it, or None."""
    lacking = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if lacking:
        return f"{', '.join(lacking)} cannot be imported; install the extra with: pip install -e '.[browser]'"
    if program() is None and os.environ.get(VARIABLE):
        return f"{VARIABLE} names {os.environ[VARIABLE]}, which is no program"
    if program() is None:
        return f"no Chromium was found; install it with: apt-get install chromium   or name one in {VARIABLE}"
    return None


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is shown."""

    width: int = 1280
    """Of the window, in CSS pixels."""
    height: int = 720
    dark: bool = False


class Element(NamedTuple):
    """A node of the accessibility tree: what assistive technology tells of a piece of the page."""

    depth: int
    role: str
    name: str
    id: str
    """The `id` in the HTML; empty where it has none."""
    states: dict[str, Any]
    """What the browser says beside role and name: `focused`, `pressed`, `level`, `description`, `value` ..."""


class Browser:
    """A share of the process's Chromium.

    Raises:
        PrerequisiteError: There is no Playwright or no Chromium.
        Failure: Chromium does not start.
    """

    def __init__(self) -> None:
        self._engine: _Engine | None = _ENGINES.acquire()

    def open(self, site: str, *, look: Look | None = None, patience: float = 60.0) -> "Page":
        """Open a page on its own.

        Args:
            site: Beginning of every address that the page may ask for.
            look: Size and colours.
            patience: Seconds that anything on the page may take.
        """
        assert self._engine is not None, "the browser was closed"
        return Page(self._engine, site, look or Look(), patience)

    @property
    def broken(self) -> bool:
        """It crashed or hung, and opens no page any more."""
        return self._engine is None or self._engine.broken

    def close(self) -> None:
        """Give up the share; Chromium ends with the last one. Idempotent."""
        engine, self._engine = self._engine, None
        if engine is not None:
            _ENGINES.release(engine)


class Page:
    """One page. Every method raises `Failure` where the browser broke or did not answer in time."""

    def __init__(self, engine: "_Engine", site: str, look: Look, patience: float) -> None:
        self.site = site
        self.blocked: list[str] = []
        """Addresses elsewhere that the page was led to, in order."""
        self._engine = engine
        self._patience = patience
        self._context: Any = None
        try:
            self._wait(self._open(look))
        except BaseException:
            self.close()
            raise

    def goto(self, address: str) -> bool:
        """Open an address; one outside the site is refused, recorded, and False."""
        if not address.startswith(self.site):
            self.blocked.append(address)
            return False
        return self._wait(self._goto(address))

    def back(self) -> bool:
        """Go back in the history; False at its beginning."""
        return self._wait(self._back())

    def click(self, selector: str) -> None:
        """Click the first element of a CSS selector; after a link or a button, wait for what follows."""
        self._wait(self._click(selector))

    def fill(self, selector: str, text: str) -> None:
        """Put a text into a box, in place of what it holds.

        One of more than `LONGEST_SHOWN` characters is held and not shown; the next thing to do is to send it, as
        Chromium crashes where such a box gets the focus.
        """
        box = self._page.locator(selector).first
        self._wait(box.fill(text) if len(text) <= LONGEST_SHOWN else box.evaluate(_PUT, text))

    def scroll(self, pixels: int) -> None:
        """Scroll down by so many CSS pixels, or up."""
        self._wait(self._page.evaluate("pixels => window.scrollBy({top: pixels, behavior: 'instant'})", pixels))

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Return what a script of ours finds on the page, as JSON."""
        return self._wait(self._page.evaluate(script, argument))

    def screenshot(self) -> bytes:
        """Return what the window shows, as PNG."""
        shot: bytes = self._wait(self._page.screenshot(animations="disabled", caret="hide"))
        return shot

    def tree(self) -> list[Element]:
        """Return the accessibility tree, in reading order, without what assistive technology passes over."""
        return self._wait(self._tree())

    def close(self) -> None:
        """Close page and context; a browser that does not is broken and will be killed. Idempotent."""
        context, self._context = self._context, None
        if context is not None and not self._engine.broken:
            try:
                self._engine.call(context.close(), CLOSE_SECONDS)
            except Failure:
                self._engine.broken = True

    def _wait(self, work: Awaitable[T]) -> T:
        return self._engine.call(work, self._patience)

    async def _open(self, look: Look) -> None:
        self._context = await self._engine.chromium.new_context(
            viewport={"width": look.width, "height": look.height},
            color_scheme="dark" if look.dark else "light",
            java_script_enabled=False,
            accept_downloads=False,
            locale="en-US",
        )
        self._context.set_default_timeout(1000 * self._patience)
        await self._context.route("**/*", self._let_through)
        self._page = await self._context.new_page()
        self._landed = asyncio.Event()
        for event in ("domcontentloaded", "crash", "close"):
            self._page.on(event, lambda _: self._landed.set())

    async def _let_through(self, route: Any) -> None:
        address = route.request.url
        if address.startswith(self.site):
            await route.continue_()
            return
        self.blocked.append(address)
        await route.fulfill(status=204)
        self._landed.set()

    async def _goto(self, address: str) -> bool:
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TooLate

        before = len(self.blocked)
        try:
            await self._page.goto(address, wait_until="domcontentloaded")
        except Error as error:
            if isinstance(error, TooLate) or self._page.is_closed() or len(self.blocked) == before:
                raise
            return False  # Read as browsers do, `/site/../other` begins with the site and leads elsewhere.
        return True

    async def _click(self, selector: str) -> None:
        target = self._page.locator(selector).first
        leads_on = await target.evaluate("element => element.matches('a[href], button, [type=submit]')")
        self._landed.clear()
        await target.click()
        if leads_on:
            await self._landed.wait()

    async def _back(self) -> bool:
        session = await self._context.new_cdp_session(self._page)
        history = await session.send("Page.getNavigationHistory")
        await session.detach()
        before = history["entries"][: history["currentIndex"]]
        if not before or not before[-1]["url"].startswith(self.site):
            return False
        await self._page.go_back(wait_until="domcontentloaded")
        return True

    async def _tree(self) -> list[Element]:
        session = await self._context.new_cdp_session(self._page)
        nodes = (await session.send("Accessibility.getFullAXTree"))["nodes"]
        document = (await session.send("DOM.getDocument", {"depth": -1}))["root"]
        await session.detach()
        return _elements(nodes, _ids(document))


def _ids(node: dict[str, Any]) -> dict[int, str]:
    """Return the `id` attributes of a document, by the number that the accessibility tree knows a node by."""
    attributes = node.get("attributes", [])
    named = dict(zip(attributes[::2], attributes[1::2], strict=True))
    found = {node["backendNodeId"]: named["id"]} if "id" in named else {}
    for child in node.get("children", []):
        found |= _ids(child)
    return found


def _elements(nodes: list[dict[str, Any]], ids: dict[int, str]) -> list[Element]:
    """Put the browser's nodes in order; texts that only repeat the name of what they are in are left out."""
    known, found = {node["nodeId"]: node for node in nodes}, []

    def visit(node: dict[str, Any], depth: int, around: str) -> None:
        role = node.get("role", {}).get("value", "none")
        name = str(node.get("name", {}).get("value", ""))
        said = not node.get("ignored") and role not in ("none", "generic", "InlineTextBox")
        if said and not (role == "StaticText" and name.strip() in ("", around.strip())):
            states = {state["name"]: state["value"].get("value") for state in node.get("properties", [])}
            states |= {key: node[key].get("value") for key in ("description", "value") if key in node}
            found.append(Element(depth, role, name, ids.get(node.get("backendDOMNodeId", -1), ""), states))
            depth, around = depth + 1, name
        for child in node.get("childIds", []):
            if child in known:
                visit(known[child], depth, around)

    if nodes:
        visit(nodes[0], 0, "")
    return found


class _Engine:
    """Playwright's event loop on a thread, and the Chromium that it drives."""

    def __init__(self) -> None:
        problem = missing()
        if problem:
            raise PrerequisiteError(problem)
        self.broken = False
        self.chromium: Any = None
        self._playwright: Any = None
        self._mark = f"--agentbench={secrets.token_hex(8)}"
        self._folders: list[Path] = []
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(ready)), name="agentbench-browser", daemon=True
        )
        self._thread.start()
        ready.wait()
        atexit.register(self.stop)
        try:
            self.call(self._start(), START_SECONDS)
        except BaseException:
            self.stop()
            raise

    def call(self, work: Awaitable[T], seconds: float) -> T:
        """Run something on the loop and wait for it.

        Raises:
            Failure: It broke, or took too long.
        """
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as TooLate

        if not self._thread.is_alive():
            if asyncio.iscoroutine(work):
                work.close()
            raise Failure("sandbox", "the browser is gone")
        future = asyncio.run_coroutine_threadsafe(_settled(work), self._loop)
        try:
            return future.result(seconds)
        except (TimeoutError, TooLate) as error:
            future.cancel()
            raise Failure("timeout", f"the browser did not answer within {seconds:g} s") from error
        except Error as error:
            raise Failure("sandbox", f"the browser broke: {error.message.partition(chr(10))[0]}") from error

    def stop(self) -> None:
        """End Chromium and Playwright, by force where they do not go by themselves. Idempotent."""
        self.broken = True
        atexit.unregister(self.stop)
        self._end(lambda: self.chromium and self.chromium.close())
        for pid in processes(self._mark):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self._end(lambda: self._playwright and self._playwright.stop())
        remove(self._folders, CLOSE_SECONDS)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(CLOSE_SECONDS)

    def _end(self, begin: Callable[[], Any]) -> None:
        async def end() -> None:
            work = begin()
            if work is not None:
                await work

        with contextlib.suppress(Failure):
            self.call(end(), CLOSE_SECONDS)

    async def _live(self, ready: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await self._stopping.wait()

    async def _start(self) -> None:
        from playwright.async_api import async_playwright

        sweep()
        self._playwright = await async_playwright().start()
        self.chromium = await self._playwright.chromium.launch(
            executable_path=program(),
            chromium_sandbox=not (os.geteuid() == 0 or os.environ.get(CONTAINER)),
            args=[*FLAGS, self._mark],
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        self.chromium.on("disconnected", lambda _: self._lose())
        for _ in range(SOCKET_TRIES):  # A busy machine makes the socket after the browser has answered.
            self._folders = folders(self._mark)
            if len(self._folders) > 1:
                break
            await asyncio.sleep(0.05)

    def _lose(self) -> None:
        self.broken = True


async def _settled(work: Awaitable[T]) -> T:
    return await work


_ENGINES: Shared[_Engine] = Shared(_Engine)
