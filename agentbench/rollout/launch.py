"""How an environment is called: off the event loop, its calls in order.

A *seat* is one running environment together with the threads that its calls use; `place.py` says where its code runs.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from agentbench.core.env import Env
from agentbench.core.errors import PrerequisiteError
from agentbench.core.registry import Resolved
from agentbench.remote.interpreter import missing
from agentbench.rollout.place import Place
from agentbench.sandbox import browser, engine
from agentbench.sandbox.process import missing_bubblewrap

T = TypeVar("T")

PREREQUISITES: dict[str, Callable[[], str | None]] = {
    "browser": browser.missing,
    "bubblewrap": missing_bubblewrap,
    "docker": engine.missing_engine,
    "textworld": partial(missing, "textworld"),
}
"""For each name that an entry's `needs` may hold: says what is missing, or None. Sandboxes add theirs."""

CLOSE_SECONDS = 10.0
"""How long a broken environment is waited for before it is left behind."""


def check_needs(resolved: Resolved) -> None:
    """Find out before any episode whether the environment can run here.

    Raises:
        PrerequisiteError: Something that it needs is missing.
    """
    for need in sorted(resolved.needs):
        check = PREREQUISITES.get(need)
        missing = f"this version of AgentBench has no support for {need!r}" if check is None else check()
        if missing:
            instead = resolved.entry.needs_with.items()
            others = [f"; or, without {need}: -E {name}={value}" for (name, value), e in instead if need not in e]
            raise PrerequisiteError(f"{resolved.id} needs {need}: {missing}{''.join(others)}")


class Threads:
    """A few daemon threads that run functions for an event loop.

    Unlike an executor's, these threads never keep a process from ending: an environment that hangs is left behind.
    """

    def __init__(self, count: int) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._count = 0
        for _ in range(count):
            self.add()

    def add(self) -> None:
        """Start one more thread."""
        threading.Thread(target=self._serve, name=f"agentbench-env-{self._count}", daemon=True).start()
        self._count += 1

    def submit(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Run a function on one of the threads; the running event loop hears of its end."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(partial(_run, function, loop, future))
        return future

    def close(self) -> None:
        """Let the threads end once they are idle."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _run(function: Callable[[], T], loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]") -> None:
    try:
        outcome = partial(_settle, future, function(), None)
    except BaseException as error:
        outcome = partial(_settle, future, None, error)
    try:
        loop.call_soon_threadsafe(outcome)
    except RuntimeError:
        return  # The loop was closed meanwhile: nobody waits for this result any more.


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Seat:
    """One environment, and the only way to call it: in order, and off the event loop."""

    def __init__(self, resolved: Resolved, threads: Threads, start: Callable[[], Env]) -> None:
        self._resolved = resolved
        self._threads = threads
        self._start = start
        self._env: Env | None = None
        self._last: asyncio.Future[Any] | None = None

    async def start(self) -> Env:
        """Start the environment if it does not run yet, and return it."""
        if self._env is None:
            await self.call(self._make)
        assert self._env is not None
        return self._env

    async def call(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Run one of the environment's methods on its thread."""
        future = self._threads.submit(partial(function, *args, **kwargs))
        self._last = future
        # A caller may be cancelled, its thread cannot: the work goes on, and `close` waits for it.
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Close the environment; one that does not answer is left behind. Idempotent, and goes on if interrupted."""
        await self._settle()
        if self._env is not None:
            env, self._env = self._env, None
            self._last = self._threads.submit(env.close)
            await self._settle()
        if self._resolved.thread_bound:
            self._threads.close()

    def _make(self) -> None:
        self._env = self._start()

    async def _settle(self) -> None:
        """Wait for the last call; if it hangs, leave its thread behind and start another for the next ones."""
        work = self._last
        if work is None:
            return
        await asyncio.wait({work}, timeout=CLOSE_SECONDS)
        self._last = None
        if not work.done() and not self._resolved.thread_bound:
            self._threads.add()
        elif work.done() and not work.cancelled():
            work.exception()  # Looked at, so that asyncio does not print it at exit.


class Seats:
    """Makes seats. Environments bound to a thread get one each; the others share a pool."""

    def __init__(self, resolved: Resolved, place: Place | None = None) -> None:
        self._resolved = resolved
        self._place = place or Place(resolved)
        self._shared: Threads | None = None
        self._seats: list[Seat] = []

    def new(self) -> Seat:
        """Return a seat whose environment is not started yet."""
        self._seats.append(Seat(self._resolved, self._threads(), self._place.start))
        return self._seats[-1]

    def _threads(self) -> Threads:
        if self._resolved.thread_bound:
            return Threads(1)
        self._shared = self._shared or Threads(min(32, 2 * (os.cpu_count() or 1)))
        return self._shared

    async def close(self) -> None:
        """Close every seat that is still open, and let the threads end."""
        await asyncio.gather(*(seat.close() for seat in self._seats))
        if self._shared is not None:
            self._shared.close()
