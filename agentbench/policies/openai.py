"""A policy that lives behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, a hosted service.

What may go wrong between here and there has three ends. What asking again can mend (rate limits, 5xx, time-outs,
resets, broken answers) is asked again, later and later; when patience ends, the episode is a `Failure` of the provider.
What the user must mend (no server, wrong key, unknown model, a setting that the server refuses) stops the run at once
with one line. And a conversation that has outgrown the model's context is `ContextFull`, an ordinary end of an episode.

The key is read from the environment, lives in one object, and is cut out of everything that the server says.
"""

import asyncio
import dataclasses
import difflib
import email.utils
import json
import os
import re
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx

from agentbench.core.errors import AgentBenchError, ContextFull, Failure, PrerequisiteError, UsageError
from agentbench.core.policy import EpisodeContext
from agentbench.core.seeding import derive
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies.completions import Answer, AnswerError, Dialect, Refusal, read_answer, read_refusal

_PASSING = frozenset((408, 409, 425, 429))
"""Statuses below 500 that may be gone at the next attempt."""
_ABOUT_THE_REQUEST = frozenset((400, 403, 413, 422))
"""Statuses that may blame a parameter; hosted models that give no log-probabilities say so with 403."""
_LONGEST_BACKOFF = 30.0
_LONGEST_CHECK = 30.0
_SHORTEST_SECRET = 16


class OpenAIPolicy:
    """Plays with a model behind a server; all sessions share its connections.

    Log-probabilities and token ids are recorded where the server returns them; entropies never (see
    `agentbench.policies.completions`). Use it in one event loop until `aclose`; `check` may run in another.

    Args:
        model: The model's name on the server.
        base_url: What stands before `/chat/completions`, usually ending in `/v1`.
        api_key_env: The environment variable that holds the key; None sends no key.
        timeout: Seconds that one request may take.
        attempts: Requests for one reply before it is a failure. Those that the server answered with 429 or 503 and a
            time to come back do not count.
        patience: Seconds that one reply may spend waiting because the server said so.
        backoff: Seconds before the second attempt; doubled for each further one, with jitter that the seed decides.
        max_connections: Requests in flight at once.

    Raises:
        PrerequisiteError: The variable with the key is not set.
        UsageError: The URL is none, or has a user or a key in it.
    """

    version = 0

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key_env: str | None = None,
        timeout: float = 600.0,
        attempts: int = 6,
        patience: float = 600.0,
        backoff: float = 0.5,
        max_connections: int = 32,
    ) -> None:
        self.model = model
        self.name = re.sub(r"[^\w.-]+", "-", model.rsplit("/", 1)[-1])
        self.timeout = timeout
        self.attempts = attempts
        self.patience = patience
        self.backoff = backoff
        self.max_connections = max_connections
        self.base_url = _checked_url(base_url)
        self._key = _Key(api_key_env)
        self._dialect = Dialect()
        self._system_fingerprints: set[str] = set()
        self._client: httpx.AsyncClient | None = None
        self._gate = asyncio.Semaphore(max_connections)

    def __repr__(self) -> str:
        return f"OpenAIPolicy({self.model!r}, base_url={self.base_url!r})"

    def start(self, episode: EpisodeContext) -> "OpenAISession":
        """Open a session for one episode."""
        return OpenAISession(self)

    def fingerprint(self) -> dict[str, Any]:
        """Return what may change a result and is known so far; the server's own words come with its replies."""
        return {
            "base_url": self.base_url,
            "model": self.model,
            "system_fingerprint": sorted(self._system_fingerprints),
            "refused_parameters": sorted(self._dialect.refused),
        }

    async def check(self) -> None:
        """Make sure, before any episode, that the server is there and has the model.

        Raises:
            PrerequisiteError: It is not, has not, or refuses the key; the message says what to do.
            UsageError: There is something else at that URL.
        """
        async with self._open() as client:
            try:
                response = await client.get(f"{self.base_url}/models", timeout=min(self.timeout, _LONGEST_CHECK))
            except httpx.RequestError as error:
                raise PrerequisiteError(
                    f"no server answers at {self.base_url}: {_cause(error)}; start it or correct --base-url"
                ) from None
        text = self._key.hide(response.text)
        if response.status_code != 200:
            raise self._denial(response.status_code, read_refusal(text)) or PrerequisiteError(
                f"{self.base_url} is not ready: {response.status_code}: {read_refusal(text).message}"
            )
        self._require_model(text)

    async def complete(self, messages: Sequence[Message], sampling: Sampling, seed: int) -> Answer:
        """Get one answer out of the server, asking again as often as that makes sense.

        Raises:
            Failure: Patience or attempts ended.
            ContextFull: The conversation leaves no room for a reply.
            PrerequisiteError: The server refuses the key.
            UsageError: The server does not know the model, or refuses what was asked for.
        """
        faults = Faults(self, seed)
        while True:
            try:
                return await self._attempt(messages, sampling, seed)
            except AnswerError as fault:
                await asyncio.sleep(faults.pause(fault))

    async def aclose(self) -> None:
        """Close the connections. Idempotent; the next reply opens new ones."""
        client, self._client = self._client, None
        self._gate = asyncio.Semaphore(self.max_connections)
        if client is not None:
            await client.aclose()

    async def _attempt(self, messages: Sequence[Message], sampling: Sampling, seed: int) -> Answer:
        while True:
            body = self._dialect.body(self.model, messages, sampling, seed)
            response = await self._post(body)
            text = self._key.hide(response.text)
            if response.status_code == 200:
                answer = read_answer(text, sampling)
                if answer.system_fingerprint is not None:
                    self._system_fingerprints.add(answer.system_fingerprint)
                return answer
            refusal = read_refusal(text)
            if response.status_code not in _ABOUT_THE_REQUEST:
                raise self._fault(response, refusal)
            sampling = self._adapt(response, refusal, body, sampling)

    async def _post(self, body: dict[str, Any]) -> httpx.Response:
        if self._client is None:
            self._client = self._open()
        try:
            # httpx measures silence; the deadline is for servers that send blanks to keep a connection alive.
            async with self._gate, asyncio.timeout(self.timeout):
                return await self._client.post(f"{self.base_url}/chat/completions", json=body)
        except (httpx.TimeoutException, TimeoutError):
            raise AnswerError(f"no answer within {self.timeout:g} s") from None
        except httpx.RequestError as error:
            raise AnswerError(_cause(error)) from None

    def _open(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=self.max_connections, max_keepalive_connections=self.max_connections)
        timeout = httpx.Timeout(self.timeout, connect=min(10.0, self.timeout), pool=None)
        return httpx.AsyncClient(auth=self._key, limits=limits, timeout=timeout)

    def _adapt(self, response: httpx.Response, refusal: Refusal, body: dict[str, Any], sampling: Sampling) -> Sampling:
        """Learn from a refused request; return how to draw the next one, or raise what the refusal means."""
        if refusal.is_about_context:
            if 0 < refusal.room() < sampling.max_tokens:
                return dataclasses.replace(sampling, max_tokens=refusal.room())
            raise ContextFull(refusal.message)
        if self._dialect.learn(refusal, body, sampling):
            return sampling
        raise self._fault(response, refusal)

    def _fault(self, response: httpx.Response, refusal: Refusal) -> Exception:
        status = response.status_code
        if denial := self._denial(status, refusal):
            return denial
        if status in _PASSING or status >= 500:
            wait = _retry_after(response.headers) if status in (429, 503) else None
            return AnswerError(f"status {status}: {refusal.message}", wait)
        return Failure("provider", f"{self.base_url} answered {status}: {refusal.message}")

    def _denial(self, status: int, refusal: Refusal) -> AgentBenchError | None:
        """Return the error for an answer that will stay the same until the user does something."""
        if status in (401, 403):
            return PrerequisiteError(
                f"{self.base_url} refuses {self._key} ({status}): {refusal.message}; "
                "name the variable that holds a valid key with --api-key-env"
            )
        if refusal.code == "insufficient_quota":
            return PrerequisiteError(f"{self.base_url} has no credit left for {self._key}: {refusal.message}")
        if status in (404, 405) or 300 <= status < 400:
            return UsageError(
                f"{self.base_url} does not serve {self.model!r} ({status}): {refusal.message}; "
                "check the model's name, and --base-url, which usually ends in /v1"
            )
        return None

    def _require_model(self, text: str) -> None:
        try:
            names = [str(model["id"]) for model in json.loads(text)["data"]]
        except (ValueError, TypeError, KeyError):
            raise UsageError(f"{self.base_url}/models is no list of models; --base-url usually ends in /v1") from None
        if self.model not in names:
            near = difflib.get_close_matches(self.model, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(names[:10]) or 'none'}"
            raise PrerequisiteError(f"{self.base_url} does not serve {self.model!r}; {hint}")


class OpenAISession:
    """One episode's conversation with the server. Holds nothing but the token ids seen so far."""

    def __init__(self, policy: OpenAIPolicy) -> None:
        self._policy = policy
        self._context: tuple[int, ...] = ()

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Answer the conversation so far; see `OpenAIPolicy.complete` for what it raises."""
        reply = (await self._policy.complete(messages, sampling, seed)).reply
        known, prompt = self._context, reply.prompt_ids
        self._context = prompt + reply.token_ids
        if known and prompt[: len(known)] == known:
            return dataclasses.replace(reply, prompt_ids=prompt[len(known) :])
        return dataclasses.replace(reply, fresh_context=bool(prompt))

    async def close(self) -> None:
        """Forget the conversation."""
        self._context = ()


class _Key(httpx.Auth):
    """The key: sent with each request, hidden everywhere else."""

    def __init__(self, variable: str | None) -> None:
        self._variable = variable
        self._secret = "" if variable is None else os.environ.get(variable, "").strip()
        if variable is not None and not self._secret:
            raise PrerequisiteError(
                f"the variable {variable} is not set; put the server's key in it, or leave --api-key-env out"
            )
        # Checked here because the HTTP library would quote it in its complaint.
        if not (self._secret.isascii() and self._secret.isprintable()):
            raise PrerequisiteError(f"the variable {variable} holds characters that no key can have")

    def __str__(self) -> str:
        return f"the key in {self._variable}" if self._variable else "requests without a key"

    __repr__ = __str__

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the key to a request."""
        if self._secret:
            request.headers["Authorization"] = f"Bearer {self._secret}"
        yield request

    def hide(self, text: str) -> str:
        """Cut the key out of what a server said."""
        # Local servers are given words as keys (`EMPTY`, `none`); those are no secrets, and belong to honest replies.
        return text.replace(self._secret, "[key]") if len(self._secret) >= _SHORTEST_SECRET else text


class Faults:
    """Counts what went wrong with one reply, and says how long to wait before the next attempt."""

    def __init__(self, policy: OpenAIPolicy, seed: int) -> None:
        self._policy = policy
        self._seed = seed
        self._count = 0
        self._uninvited = 0
        self._waited = 0.0

    def pause(self, fault: AnswerError) -> float:
        """Return the seconds to wait after a fault.

        Raises:
            Failure: There were too many.
        """
        policy, self._count = self._policy, self._count + 1
        self._uninvited += fault.wait is None
        if self._uninvited >= policy.attempts:
            raise Failure("provider", f"{policy.base_url}: {fault}; gave up after {self._uninvited} attempts")
        pause = (fault.wait or 0.0) + self._jittered()
        self._waited += pause * (fault.wait is not None)
        if self._waited > policy.patience:
            raise Failure(
                "provider", f"{policy.base_url}: {fault}; it asks for more patience than {policy.patience:g} s"
            )
        return pause

    def _jittered(self) -> float:
        # Half of the time is drawn, so that episodes that were turned away together do not come back together.
        draw = derive("backoff", self._seed, self._count) / 2**63
        return min(_LONGEST_BACKOFF, self._policy.backoff * 2.0 ** (self._count - 1)) * (1 + draw) / 2


def _checked_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise UsageError(f"--base-url is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"--base-url must look like http://host:port/v1, not {base_url!r}")
    if url.userinfo or url.query or url.fragment:
        raise UsageError(
            "--base-url has a user, a query or a fragment in it; "
            "put the key in a variable and name that with --api-key-env"
        )
    return str(url)


def _cause(error: httpx.RequestError) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _retry_after(headers: httpx.Headers) -> float | None:
    """Read the time that a server wants to be left alone for, given as seconds or as a date on its own clock."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    until = _date(value)
    if until is None:
        return None
    return max(0.0, (until - (_date(headers.get("date", "")) or datetime.now(UTC))).total_seconds())


def _date(value: str) -> datetime | None:
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
