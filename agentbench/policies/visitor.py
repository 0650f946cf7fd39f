"""A person in a browser of their own, on the pages of an environment that has some.

The environment tells the address of a page on which its episode can be played; each click there becomes an action, in
the words that any other policy would have used. So what a person does is recorded, replayed and learned from like
everything else.
"""

import asyncio
import os
import sys
import webbrowser
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from rich.console import Console
from rich.text import Text

from agentbench.core.errors import UsageError
from agentbench.core.policy import EpisodeContext
from agentbench.core.types import Message, Reply, Sampling

LOOK_SECONDS: Final = 0.02


@runtime_checkable
class Host(Protocol):
    """What an environment offers that people can play in a browser."""

    def invite(self) -> str:
        """Return the address of a page that shows the present episode, and the ones after it."""

    def asked(self) -> str | None:
        """Return the action that the person wants next; None while there is none."""


class Visitor:
    """Lets a person play in a browser; says on stderr where."""

    name = "human"
    version = 0
    scripted = True

    def __init__(self) -> None:
        self._told: set[str] = set()

    def start(self, episode: EpisodeContext) -> "VisitorSession":
        """Open a session.

        Raises:
            UsageError: The environment has no page for people.
        """
        env: object = episode.env
        if not isinstance(env, Host):
            raise UsageError(f"{episode.resolved.id} has no page for people; play it in the terminal (--model human)")
        return VisitorSession(self, env)

    def welcome(self, address: str) -> None:
        """Open the page once, where there is a screen, and say where it is."""
        if address not in self._told:
            self._told.add(address)
            Console(stderr=True).print(Text(f"play at {address}"), soft_wrap=True)
            if has_screen():
                webbrowser.open(address)


class VisitorSession:
    """One episode."""

    def __init__(self, visitor: Visitor, host: Host) -> None:
        self._visitor = visitor
        self._host = host

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Wait for the next click."""
        self._visitor.welcome(self._host.invite())
        while (action := self._host.asked()) is None:  # noqa: ASYNC110 - it comes from another thread
            await asyncio.sleep(LOOK_SECONDS)
        return Reply(action)

    async def close(self) -> None:
        """Nothing is held."""


def has_screen() -> bool:
    """Tell whether a window can be opened here."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
