"""The shop as a web site: sessions behind pages, on this machine alone.

    GET  /v/KEY/N       the N-th page of a visit; opening an earlier one goes back to it, as a browser's history does
    POST /v/KEY/N       one action on that page, `click=NAME` or `search=WORDS`; leads to the page that follows
    GET  /with/KEY      a person's view of an episode: the page it is on
    POST /with/KEY/N    what the person wants to do; the episode plays it, and the page that follows is the answer
    GET, POST /         where the shop is served by itself: the welcome, and a new visit

A visit is `session.Session`, whichever face acts on it. Keys are random, so one visit cannot find another. Requests
under another host's name (a name that was made to lead here) and from foreign pages are refused. No address stands for
a file.
"""

import asyncio
import copy
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agentbench.core.errors import UsageError
from agentbench.core.registry import Resolved
from agentbench.sandbox.shared import Shared
from agentbench_envs.webshop import markup
from agentbench_envs.webshop.env import WebShopEnv
from agentbench_envs.webshop.markup import Frame
from agentbench_envs.webshop.session import Session

HOST: Final = "127.0.0.1"
PAGES_KEPT: Final = 50
"""Pages of a visit that its history reaches back to."""
VISITS_KEPT: Final = 1000
LONGEST_BODY: Final = 16_000_000
"""Bytes of a request. A megabyte of search words has up to twelve, written as a form."""
LONGEST_PUBLIC_BODY: Final = 20_000
PATIENCE: Final = 60.0
"""Seconds that a person's page waits for the episode."""

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": markup.policy(),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Visit:
    """A session and the pages that it showed.

    Args:
        session: At its start.
    """

    def __init__(self, session: Session) -> None:
        self.key = secrets.token_urlsafe(16)
        self.session = session
        self.number = 0
        self._shown = {0: session}
        self._last = 0

    @property
    def path(self) -> str:
        """Beginning of the addresses of its pages."""
        return f"/v/{self.key}/"

    def open(self, number: int) -> bool:
        """Go to a page that was shown; False, and nothing, if it was not or if the purchase was made."""
        if number not in self._shown or self.session.purchase is not None:
            return number == self.number
        self.number, self.session = number, self._shown[number]
        return True

    def act(self, action: str) -> None:
        """Play an action on the present page; a legal one shows a new page."""
        if self.session.purchase is not None or not self.session.can(action):
            return
        # What a session holds is replaced, never changed, so that a shallow copy is the state before the action.
        self.session = copy.copy(self.session)
        self.session.act(action)
        self._last += 1
        self.number = self._last
        self._shown[self.number] = self.session
        self._shown.pop(self.number - PAGES_KEPT, None)


class Guest:
    """A person who decides an episode's actions in a browser of their own."""

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(16)
        self.asked: deque[str] = deque()
        """Actions that wait to be played."""
        self.visit: Visit | None = None
        self.visits = 0
        self.turns = 0

    def enter(self, visit: Visit) -> None:
        """Go on to the next episode."""
        self.visit = visit
        self.visits += 1
        self.asked.clear()

    def answer(self) -> None:
        """Say that an action was played."""
        self.turns += 1


class Reception:
    """Gives every visitor of a shop that is served by itself a wish."""

    def __init__(self, env: WebShopEnv) -> None:
        self.goals = env.task_count or 0
        self._env = env
        self._next = 0

    def session(self, wanted: str) -> Session:
        """Begin the visit of a numbered wish of the split, or of the next one."""
        number = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else self._next
        self._next += not wanted
        self._env.reset(seed=number)
        return self._env.session


class Site:
    """A server of visits, on a thread of its own, at a free port of this machine.

    Args:
        port: Where; 0 takes a free one.
        reception: Lets visitors in who come by themselves.

    Raises:
        UsageError: The port cannot be had.
    """

    def __init__(self, port: int = 0, reception: Reception | None = None) -> None:
        self.visits: dict[str, Visit] = {}
        self.guests: dict[str, Guest] = {}
        self._reception = reception
        self._longest = LONGEST_BODY if reception is None else LONGEST_PUBLIC_BODY
        self._socket = _listen(port)
        self.address = f"http://{HOST}:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            self._app(), log_config=None, log_level="error", access_log=False, lifespan="off", ws="none", http="h11",
            loop="asyncio", server_header=False, timeout_graceful_shutdown=2,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="webshop-site", daemon=True
        )
        self._thread.start()

    @property
    def broken(self) -> bool:
        """It serves no more."""
        return not self._thread.is_alive()

    def open(self, session: Session) -> Visit:
        """Take a session in."""
        visit = Visit(session)
        self.visits[visit.key] = visit
        while len(self.visits) > VISITS_KEPT:
            del self.visits[next(iter(self.visits))]
        return visit

    def invite(self) -> Guest:
        """Prepare a page for a person, at `/with/KEY`."""
        guest = Guest()
        self.guests[guest.key] = guest
        return guest

    def wait(self) -> None:
        """Serve until interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.2)

    def stop(self) -> None:
        """Stop serving, after the answers that are under way. Idempotent."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _app(self) -> Starlette:
        routes = [
            Route("/v/{key}/{number}", self._page, methods=["GET"]),
            Route("/v/{key}/{number}", self._act, methods=["POST"]),
            Route("/with/{key}", self._view, methods=["GET"]),
            Route("/with/{key}/{number}", self._ask, methods=["POST"]),
        ]
        if self._reception is not None:
            routes += [
                Route("/", self._welcome, methods=["GET"]),
                Route("/", self._receive, methods=["POST"]),
            ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(_Guard, address=self.address)],
            exception_handlers={HTTPException: _refuse},  # type: ignore[dict-item]
        )

    async def _page(self, request: Request) -> Response:
        visit = self._visit(request)
        if not visit.open(_number(request)):
            return RedirectResponse(f"{visit.path}{visit.number}", 303, HEADERS)
        return self._show(visit, Frame(request.url.path, onward="/" if self._reception else ""))

    async def _act(self, request: Request) -> Response:
        visit = self._visit(request)
        action = await self._action(request)
        if visit.open(_number(request)):
            visit.act(action)
        return RedirectResponse(f"{visit.path}{visit.number}", 303, HEADERS)

    async def _view(self, request: Request) -> Response:
        guest = self._guest(request)
        if guest.visit is None:
            raise HTTPException(404)
        return self._show(guest.visit, _frame(guest))

    async def _ask(self, request: Request) -> Response:
        guest, action = self._guest(request), await self._action(request)
        visit = guest.visit
        if visit is None:
            raise HTTPException(404)
        if _number(request) != guest.visits:
            return self._show(visit, _frame(guest, "The visit before ended: its turns were used up."))
        if not guest.asked:
            turns = guest.turns
            guest.asked.append(action)
            await _until(lambda: guest.turns > turns or guest.visit is not visit)
        return self._show(visit, _frame(guest))

    async def _welcome(self, request: Request) -> Response:
        assert self._reception is not None
        return HTMLResponse(markup.welcome(self._reception.goals, "/"), headers=HEADERS)

    async def _receive(self, request: Request) -> Response:
        assert self._reception is not None
        visit = self.open(self._reception.session((await self._form(request)).get("goal", "").strip()))
        return RedirectResponse(f"{visit.path}0", 303, HEADERS)

    def _show(self, visit: Visit, frame: Frame) -> Response:
        content = markup.document(visit.session.page, frame).encode("utf-8", "replace")
        return Response(content, media_type="text/html; charset=utf-8", headers=HEADERS)

    def _visit(self, request: Request) -> Visit:
        visit = self.visits.get(request.path_params["key"])
        if visit is None:
            raise HTTPException(404)
        return visit

    def _guest(self, request: Request) -> Guest:
        guest = self.guests.get(request.path_params["key"])
        if guest is None:
            raise HTTPException(404)
        return guest

    async def _action(self, request: Request) -> str:
        """Read an action from a form; what would end the brackets early is no word to search for."""
        form = await self._form(request)
        if "click" in form:
            return f"click[{form['click']}]"
        words = form.get("search", "")
        return f"search[{' '.join(words.replace('[', ' ').splitlines())}]"

    async def _form(self, request: Request) -> dict[str, str]:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > self._longest:
                    raise HTTPException(413)
            return dict(parse_qsl(bytes(body).decode("ascii"), keep_blank_values=True, max_num_fields=8))
        except (ValueError, ClientDisconnect):
            raise HTTPException(400) from None


class _Guard:
    """Lets through what was asked of this host, by nobody or by its own pages."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app = app
        port = urlsplit(address).port
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Request(scope).headers
            host, origin = headers.get("host", ""), headers.get("origin")
            if host not in self._hosts or origin not in (None, f"http://{host}"):
                await _error(403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


_SAID: Final = {
    400: "This request makes no sense.",
    403: "This shop only answers its own pages, under its own name.",
    404: "There is no such page. A visit ends with its episode.",
    405: "This cannot be done here.",
    413: "This is too long.",
}


def _error(code: int) -> Response:
    said = _SAID.get(code, "Something went wrong.")
    return HTMLResponse(markup.message("Not here", said), code, HEADERS)


async def _refuse(request: Request, error: HTTPException) -> Response:
    return _error(error.status_code)


def _number(request: Request) -> int:
    number = str(request.path_params["number"])
    if not (number.isdecimal() and len(number) < 10):
        raise HTTPException(404)
    return int(number)


def _frame(guest: Guest, notice: str = "") -> Frame:
    return Frame(f"/with/{guest.key}/{guest.visits}", f"/with/{guest.key}", notice)


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(round(PATIENCE / 0.01)):
        if holds():
            return
        await asyncio.sleep(0.01)


def _listen(port: int) -> socket.socket:
    try:
        made = socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on port {port} of {HOST}: {error}; --port 0 takes a free one") from error
    # Passed on to every connection; asyncio does it only for sockets that were made by protocol. Without it an answer's
    # body waits for the acknowledgement of its head, 40 ms.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


SITES: Shared[Site] = Shared(Site)


def serve(resolved: Resolved, port: int, tell: Callable[[str], None]) -> None:
    """Serve the shop to people until interrupted.

    Args:
        resolved: Which catalogue and split.
        port: Of this machine; 0 takes a free one.
        tell: Is told the address.

    Raises:
        UsageError: The port cannot be had.
    """
    env = resolved.make()
    assert isinstance(env, WebShopEnv)
    site = Site(port, Reception(env))
    try:
        tell(f"{site.address}/")
        site.wait()
    finally:
        site.stop()
