"""A chat-completions server on loopback that repeats what it was told, and misbehaves on schedule.

Its tokens are bytes, and 256 opens and closes messages, so that the ids of a conversation can be computed by hand.
"""

import asyncio
import email.utils
import json
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

EDGE = 256
Body = dict[str, Any]


@dataclass
class Provider:
    """The server's settings, and what it has seen."""

    models: tuple[str, ...] = ("tiny", "vendor/tiny-chat")
    key: str | None = None
    """Demanded of every request."""
    rejects: dict[str, Callable[[str], Response]] = field(default_factory=dict)
    """Parameters that it refuses, and how."""
    faults: dict[str, list[str]] = field(default_factory=dict)
    """By the content of the last message: what goes wrong, attempt by attempt, before it is answered."""
    answer: Callable[[Body], Body] = lambda body: {}
    """Overrides parts of the choice."""
    context: int | None = None
    """Tokens that prompt and reply may have together."""
    delay: float = 0.0
    """Seconds that an answer takes."""
    url: str = ""
    requests: list[Body] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    most_in_flight: int = 0
    hung_up: int = 0
    """Requests whose client went away."""

    async def complete(self, request: Request) -> Response:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._complete(request)
        finally:
            self.in_flight -= 1

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        if denied := self._denied(request):
            return denied
        last = body["messages"][-1]["content"]
        if self.faults.get(last if isinstance(last, str) else ""):
            return await FAULTS[self.faults[last].pop(0)](request)
        for name in body.keys() & self.rejects.keys():
            return self.rejects[name](name)
        await self._think(request)
        prompt = prompt_ids(body)
        if refused := self._too_long(body, len(prompt)):
            return refused
        choice = {**reply(body), **self.answer(body)}
        self.answered[str(last)] += 1
        usage: Body = {"prompt_tokens": len(prompt), "completion_tokens": len(choice.get("token_ids") or ())}
        usage |= {"prompt_tokens_details": {"cached_tokens": 3}, "total_tokens": None}
        shown = {"prompt_token_ids": prompt} if "return_token_ids" in body else {}
        whole = {"choices": [choice], "usage": usage, "system_fingerprint": "fp_1", **shown}
        return Response(json.dumps(whole), media_type="application/json")  # escapes what UTF-8 cannot say

    async def _think(self, request: Request) -> None:
        try:
            async with asyncio.timeout(self.delay):
                await _silence(request)
                self.hung_up += 1
        except TimeoutError:
            pass

    def _denied(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "")
        if self.key is not None and given != f"Bearer {self.key}":
            return error(401, f"Incorrect API key provided: {given}", code="invalid_api_key")
        return None

    def _too_long(self, body: Body, prompt: int) -> Response | None:
        asked = body.get("max_tokens", 0)
        if self.context is None or prompt + asked <= self.context:
            return None
        if prompt >= self.context:
            return error(400, f"the request exceeds the available context size ({prompt} tokens)")
        message = (
            f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is "
            f"{self.context} tokens and your request has {prompt} input tokens."
        )
        return error(400, message)

    async def list_models(self, request: Request) -> Response:
        return self._denied(request) or JSONResponse({"data": [{"id": name} for name in self.models]})


def prompt_ids(body: Body) -> list[int]:
    """The tokens of a conversation: each message's words between edges; the last edge opens the reply."""
    ids: list[int] = []
    for message in body["messages"]:
        ids += [EDGE, *str(message["content"]).encode(), EDGE]
    return [*ids, EDGE]


def reply(body: Body) -> Body:
    """Answer with the last message, and the tokens and log-probabilities that were asked for."""
    text = f"you said {body['messages'][-1]['content']}"
    room = body.get("max_tokens", body.get("max_completion_tokens", 10**9))
    ids = [*text.encode(), EDGE][:room]
    choice: Body = {
        "message": {"role": "assistant", "content": bytes(i for i in ids if i != EDGE).decode()},
        "finish_reason": "stop" if ids[-1] == EDGE else "length",
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": "", "logprob": -i / 256} for i in ids]}
    if body.get("return_token_ids"):
        choice["token_ids"] = ids
    return choice


def error(status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """OpenAI's way to say no."""
    return JSONResponse({"error": {"message": message, **more}}, status, headers)


def names_param(name: str) -> Response:
    """As OpenAI refuses a parameter."""
    return error(400, "Unsupported parameter.", param=name, code="unsupported_parameter")


def names_in_text(name: str) -> Response:
    """As gateways refuse one."""
    return error(400, f"Unrecognized request argument supplied: {name}")


def names_location(name: str) -> Response:
    """As FastAPI refuses one."""
    return JSONResponse({"detail": [{"loc": ["body", name], "msg": "Extra inputs are not permitted"}]}, 422)


def wants_completion_tokens(name: str) -> Response:
    """As newer hosted models refuse `max_tokens`."""
    return error(400, "Use 'max_completion_tokens' instead.", param=name)


class HalfAnswer(Response):
    """Announces more than it sends, then drops the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5000")]})
        await send({"type": "http.response.body", "body": b'{"choices": [{"mess', "more_body": True})
        raise ConnectionResetError


def _always(make: Callable[[], Response]) -> Callable[[Request], Awaitable[Response]]:
    async def fault(request: Request) -> Response:
        return make()

    return fault


def _date_in(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


async def _silence(request: Request) -> Response:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return PlainTextResponse("nobody is listening")


async def _leak(request: Request) -> Response:
    return error(500, f"failed with {request.headers.get('authorization')}")


def _choices(*choices: Any) -> Callable[[], Response]:
    return lambda: JSONResponse({"choices": list(choices)})


FAULTS: dict[str, Callable[[Request], Awaitable[Response]]] = {
    "rate-limit": _always(lambda: error(429, "slow down", {"retry-after": "0"})),
    "rate-limit-1s": _always(lambda: error(429, "slow down", {"retry-after": "1"})),
    "rate-limit-date": _always(lambda: error(503, "loading", {"retry-after": _date_in(2)})),
    "rate-limit-day": _always(lambda: error(429, "slow down", {"retry-after": "86400"})),
    "rate-limit-nonsense": _always(lambda: error(429, "slow down", {"retry-after": "soon"})),
    "no-credit": _always(lambda: error(429, "You exceeded your quota", code="insufficient_quota")),
    "500": _always(lambda: PlainTextResponse("<html>oops</html>", 500)),
    "502": _always(lambda: PlainTextResponse("bad gateway", 502)),
    "403": _always(lambda: error(403, "not in your country")),
    "404": _always(lambda: error(404, "The model `tiny` does not exist.")),
    "418": _always(lambda: error(418, "teapot")),
    "broken-json": _always(lambda: PlainTextResponse('{"choices": [{"message"')),
    "html": _always(lambda: PlainTextResponse("<html>welcome</html>")),
    "no-choices": _always(lambda: JSONResponse({"error": {"message": "overloaded"}})),
    "empty-choices": _always(_choices()),
    "no-message": _always(_choices({"finish_reason": "stop"})),
    "no-content": _always(_choices({"finish_reason": "stop", "message": {"role": "assistant"}})),
    "no-finish": _always(_choices({"message": {"content": "half a sent"}})),
    "aborted": _always(_choices({"message": {"content": "half"}, "finish_reason": "abort"})),
    "filtered": _always(_choices({"message": {"content": ""}, "finish_reason": "content_filter"})),
    "half": _always(HalfAnswer),
    "silence": _silence,
    "leak": _leak,
}


@dataclass
class Address:
    """Where a server listens, and who answers there."""

    url: str = ""
    provider: Provider = field(default_factory=Provider)

    def connect(self, provider: Provider) -> Provider:
        """Let this provider answer from now on."""
        provider.url = self.url
        self.provider = provider
        return provider

    async def complete(self, request: Request) -> Response:
        return await self.provider.complete(request)

    async def list_models(self, request: Request) -> Response:
        return await self.provider.list_models(request)


@contextmanager
def serving() -> Iterator[Address]:
    """Serve on a free port of loopback, in a thread."""
    address = Address()
    routes = [
        Route("/v1/chat/completions", address.complete, methods=["POST"]),
        Route("/v1/models", address.list_models),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes), port=0, log_level="critical", lifespan="off", http="h11", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        address.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
        yield address
    finally:
        server.should_exit = True
        thread.join()
