"""Sandboxes that are started before they are needed, because starting one takes longer than many commands."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Self

from agentbench.core.errors import AgentBenchError, UsageError
from agentbench.sandbox.base import Sandbox


class Pool:
    """Holds a few started sandboxes that nobody has used. One that was taken never comes back: its taker closes it.

    Args:
        make: Makes a sandbox, not started.
        spare: How many wait.
        fresh: The share of its lifetime after which a waiting sandbox is too old to be given away.
    """

    def __init__(self, make: Callable[[], Sandbox], *, spare: int = 2, fresh: float = 0.5) -> None:
        self._make = make
        self._spare = spare
        self._fresh = fresh
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, Future[Sandbox]]] = deque()
        self._threads = ThreadPoolExecutor(max(1, spare), thread_name_prefix="agentbench-pool")
        self._closed = False

    def warm(self) -> None:
        """Begin to start what is missing; `take` does so too."""
        with self._lock:
            while not self._closed and len(self._waiting) < self._spare:
                self._waiting.append((time.monotonic(), self._threads.submit(self._start)))

    def take(self) -> Sandbox:
        """Return a started sandbox that nobody has used; close it.

        Raises:
            Failure: None could be started.
            UsageError: The pool was closed.
        """
        while True:
            with self._lock:
                if self._closed:
                    raise UsageError("this pool of sandboxes was closed")
                since, ready = self._waiting.popleft() if self._waiting else (time.monotonic(), None)
            self.warm()
            if ready is None:
                return self._start()
            sandbox = ready.result()
            if time.monotonic() - since < self._fresh * sandbox.limits.lifetime:
                return sandbox
            sandbox.close()

    def close(self) -> None:
        """Close every sandbox that waits. Idempotent."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for _, ready in waiting:
            if not ready.cancel():
                with suppress(AgentBenchError):
                    ready.result().close()
        self._threads.shutdown()

    def __enter__(self) -> Self:
        """Begin to start sandboxes."""
        self.warm()
        return self

    def __exit__(self, *_: object) -> None:
        """Close every sandbox that waits."""
        self.close()

    def _start(self) -> Sandbox:
        sandbox = self._make()
        sandbox.start()
        return sandbox
