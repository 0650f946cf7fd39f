"""What is costly to start and can serve many episodes at once."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Shareable(Protocol):
    """Something that runs until it is stopped, or breaks."""

    @property
    def broken(self) -> bool:
        """Nobody new should be given it."""

    def stop(self) -> None:
        """End it, whatever state it is in."""


T = TypeVar("T", bound=Shareable)


class Shared(Generic[T]):
    """One of a kind per process: made for the first who asks, replaced when broken, stopped after the last.

    Args:
        make: Starts one.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._current: T | None = None
        self._users: Counter[int] = Counter()

    def acquire(self) -> T:
        """Return the one that runs, started if need be; `release` it."""
        with self._lock:
            if self._current is None or self._current.broken:
                self._current = self._make()
            self._users[id(self._current)] += 1
            return self._current

    def release(self, thing: T) -> None:
        """Give up what `acquire` returned."""
        with self._lock:
            self._users[id(thing)] -= 1
            if self._users[id(thing)]:
                return
            del self._users[id(thing)]
            if self._current is thing:
                self._current = None
            thing.stop()
