"""A person at the terminal. What is shown goes to stderr; what is typed is read from stdin.

Nothing can interrupt a thread that reads from a terminal, so every line is read in a thread of its own that nobody
waits for at the end. A cancelled reply leaves its thread behind; the next reply takes over the line it is reading.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from rich.console import Console
from rich.text import Text

from agentbench.core.errors import Interrupted
from agentbench.core.plain import encodable, plain
from agentbench.core.policy import EpisodeContext
from agentbench.core.types import Message, Reply, Sampling

_PROMPT = "> "
_MORE = "… "


class Quit(Interrupted):
    """The player left: Ctrl-D, or the end of the piped input."""


class HumanPolicy:
    """Lets a person play. Episodes that run at the same time take turns at the terminal.

    A line is an answer; a line that ends with a backslash continues on the next. On a terminal the usual editing keys
    work and the arrow keys recall earlier lines, where Python has readline.

    Args:
        console: Where messages are shown; stderr if None.
    """

    name = "human"
    version = 0

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._terminal = _Terminal(self._console)
        self._turn = asyncio.Lock()

    def start(self, episode: EpisodeContext) -> "HumanSession":
        """Open a session for one episode."""
        return HumanSession(self)

    async def ask(self, messages: Sequence[Message]) -> str:
        """Show messages and return what the person answers.

        Raises:
            Quit: There will be no answer.
        """
        async with self._turn:
            for message in messages:
                self._show(message)
            return await self._terminal.answer()

    def _show(self, message: Message) -> None:
        style = "dim" if message.role == "system" else ""
        # As Text, nothing is taken for markup; unwrapped, grids and pages keep their shape.
        self._console.print(Text(plain(message.content), style=style), soft_wrap=True)
        if message.images:
            self._console.print(Text(f"(images, not shown: {len(message.images)})", style="dim"))
        self._console.print()


class HumanSession:
    """One episode: shows what is new since the last answer."""

    def __init__(self, policy: HumanPolicy) -> None:
        self._policy = policy
        self._is_first = True

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Show the new messages, the first time the instructions among them, and wait for the answer.

        Raises:
            Quit: The player left.
        """
        new = _unanswered(messages) if not self._is_first else [m for m in messages if m.role != "assistant"]
        self._is_first = False
        return Reply(await self._policy.ask(new))

    async def close(self) -> None:
        """Nothing is held."""


def _unanswered(messages: Sequence[Message]) -> list[Message]:
    """Return the messages after the last answer; without one in sight (a short window), the last message."""
    last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=len(messages) - 2)
    return [message for message in messages[last + 1 :] if message.role != "system"]


class _Terminal:
    """Reads answers from stdin, one line per thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pending: Future[str] | None = None
        self._settings: list[Any] | None = None
        self._rest = b""

    async def answer(self) -> str:
        """Read lines until one does not end with a backslash."""
        lines = [await self._line(_PROMPT)]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(await self._line(_MORE))
        return encodable("\n".join(lines))

    async def _line(self, prompt: str) -> str:
        if self._pending is None:
            self._settings = _terminal_settings()
            self._pending = Future()
            self._pending.set_running_or_notify_cancel()  # a cancelled reply must not cancel the thread's result
            threading.Thread(target=self._read_into, args=(self._pending, prompt), daemon=True).start()
        try:
            line = await asyncio.wrap_future(self._pending)
        except asyncio.CancelledError:
            _restore(self._settings)
            raise
        except Exception:
            self._pending = None
            raise
        self._pending = None
        return line

    def _read_into(self, result: Future[str], prompt: str) -> None:
        try:
            result.set_result(self._read(prompt))
        except EOFError:
            result.set_exception(Quit("the player left"))
        except Exception as error:
            result.set_exception(error)

    def _read(self, prompt: str) -> str:
        if _has_editing():
            return input(prompt)
        if sys.stdin.isatty():
            self._console.print(Text(prompt), end="")
        return self._read_bytes().decode(errors="replace")

    def _read_bytes(self) -> bytes:
        """Read a line past Python's buffers: a thread that waits in them at exit would crash the interpreter."""
        while b"\n" not in self._rest:
            chunk = os.read(sys.stdin.fileno(), 65536)
            if not chunk and not self._rest:
                raise EOFError
            self._rest += chunk or b"\n"
        line, _, self._rest = self._rest.partition(b"\n")
        return line.removesuffix(b"\r")


def _has_editing() -> bool:
    """Load readline if `input` would use it: with stdin and stdout both on a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        import readline  # noqa: F401
    except ImportError:
        return False
    return True


def _terminal_settings() -> list[Any] | None:
    """Return the terminal's settings, which readline changes while it reads."""
    try:
        import termios
    except ImportError:
        return None
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def _restore(settings: list[Any] | None) -> None:
    if settings is not None:
        import termios

        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, settings)
