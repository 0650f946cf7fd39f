"""A person's play, through a pipe and through a pseudo-terminal."""

import asyncio
import codecs
import io
import json
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentbench.core.policy import EpisodeContext, Policy
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies.human import HumanPolicy, HumanSession, Quit
from agentbench.testing import ECHO, resolve_fake

EPISODE = EpisodeContext("key", resolve_fake(ECHO), "task")
PLAYING = Path(__file__).with_name("playing.py")


class Keyboard:
    """The other end of stdin, and what was shown so far."""

    def __init__(self, write_end: int) -> None:
        self._write_end = write_end
        self.screen = io.StringIO()

    def type(self, text: str | bytes) -> None:
        os.write(self._write_end, text.encode() if isinstance(text, str) else text)

    def hang_up(self) -> None:
        if self._write_end >= 0:
            os.close(self._write_end)
        self._write_end = -1


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        keyboard = Keyboard(write_end)
        yield keyboard
    keyboard.hang_up()


def sit_down(keyboard: Keyboard) -> HumanPolicy:
    return HumanPolicy(Console(file=keyboard.screen, width=40))


async def ask(session: HumanSession, *contents: str) -> Reply:
    """Ask with a conversation whose roles alternate, the instructions first."""
    roles: list[Any] = ["system", *["user", "assistant"] * len(contents)]
    messages = [Message(role, content) for role, content in zip(roles, contents, strict=False)]
    return await session.reply(messages, Sampling(), seed=0)


def answer(keyboard: Keyboard, *contents: str) -> str:
    return asyncio.run(ask(sit_down(keyboard).start(EPISODE), *(contents or ("rules", "go")))).text


def test_it_is_a_policy() -> None:
    policy: Policy = HumanPolicy()
    assert (policy.name, policy.version) == ("human", 0)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("up\n", "up"),
        ("up\r\n", "up"),
        ("\n", ""),
        ("first\\\nsecond\\\n\nnever read", "first\nsecond\n"),
        ("naïve 漢字\n", "naïve 漢字"),
        (b"\xff\n", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_line_is_an_answer(keyboard: Keyboard, typed: str | bytes, text: str) -> None:
    keyboard.type(typed)
    assert answer(keyboard) == text


def test_the_last_line_needs_no_end(keyboard: Keyboard) -> None:
    keyboard.type("up")
    keyboard.hang_up()
    assert answer(keyboard) == "up"


@pytest.mark.parametrize("typed", ["", "half \\\n"])
def test_the_end_of_the_input_is_the_players_farewell(keyboard: Keyboard, typed: str) -> None:
    keyboard.type(typed)
    keyboard.hang_up()
    with pytest.raises(Quit) as caught:
        answer(keyboard)
    assert caught.value.exit_code == 130


def test_text_is_shown_as_it_is_but_cannot_steer_the_terminal(keyboard: Keyboard) -> None:
    keyboard.type("\n")
    answer(keyboard, "click[x] [/answer] [red]no[/red] :smile:", "a\x1b[2Jb\u202ec\x9bd " + "#" * 60 + "\n#  .$")
    assert keyboard.screen.getvalue().split("\n\n") == [
        "click[x] [/answer] [red]no[/red] :smile:",
        "a[2Jbcd " + "#" * 60 + "\n#  .$",
        "",
    ]


def test_only_what_is_new_is_shown(keyboard: Keyboard) -> None:
    keyboard.type("up\ndown\nleft\n")

    async def play() -> None:
        session = sit_down(keyboard).start(EPISODE)
        await ask(session, "rules", "one")
        await ask(session, "rules", "one", "up", "two")
        await ask(session, "rules", "three")  # a window that holds nothing of what was before
        await session.close()

    asyncio.run(play())
    assert keyboard.screen.getvalue().split() == ["rules", "one", "two", "three"]


def test_pictures_are_announced(keyboard: Keyboard) -> None:
    keyboard.type("\n")
    session = sit_down(keyboard).start(EPISODE)
    asyncio.run(session.reply([Message("user", "look", (b"png",))], Sampling(), seed=0))
    assert "images, not shown: 1" in keyboard.screen.getvalue()


def test_episodes_take_turns_at_the_terminal(keyboard: Keyboard) -> None:
    keyboard.type("a1\\\na2\nb\n")

    async def play() -> list[str]:
        policy = sit_down(keyboard)
        sessions = (policy.start(EPISODE), policy.start(EPISODE))
        return [reply.text for reply in await asyncio.gather(*(ask(session, "rules", "go") for session in sessions))]

    assert asyncio.run(play()) == ["a1\na2", "b"]


def test_a_line_typed_after_a_cancelled_reply_belongs_to_the_next(keyboard: Keyboard) -> None:
    async def play() -> str:
        session = sit_down(keyboard).start(EPISODE)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(session, "rules", "one"), 0.05)
        keyboard.type("up\n")
        return (await ask(session, "rules", "two")).text

    assert asyncio.run(play()) == "up"


class Terminal:
    """A pseudo-terminal with `playing.py` in it."""

    def __init__(self, result: Path, stdout: int | None = None) -> None:
        self.master, self.slave = os.openpty()
        self.before = termios.tcgetattr(self.slave)
        self.seen = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may come in two reads
        self.process = subprocess.Popen(
            [sys.executable, str(PLAYING), str(result)],
            stdin=self.slave,
            stdout=self.slave if stdout is None else stdout,
            stderr=self.slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )

    def wait_for(self, text: str) -> None:
        """Read on until the text is on the screen; what came before is forgotten."""
        deadline = time.monotonic() + 20
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += self.decoder.decode(os.read(self.master, 65536))
        self.seen = self.seen.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return tmp_path / "result.json"


@pytest.fixture
def terminal(result: Path) -> Iterator[Terminal]:
    terminal = Terminal(result)
    yield terminal
    terminal.close()


def test_a_whole_episode_at_a_terminal_with_editing_and_history(terminal: Terminal, result: Path) -> None:
    terminal.wait_for("Word 1 of 3")
    terminal.wait_for("> ")
    terminal.type("norh\x1b[Dt\n")  # an arrow to the left, and the missing letter
    terminal.wait_for("Word 2 of 3")
    terminal.wait_for("> ")
    terminal.type("\x1b[A\n")  # an arrow up: the last answer again
    terminal.wait_for("Word 3 of 3")
    terminal.wait_for("> ")
    terminal.type("one\\\n")
    terminal.wait_for("… ")
    terminal.type("two\n")
    assert terminal.process.wait(20) == 0
    assert json.loads(result.read_text()) == ["north", "north", "one\ntwo"]


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["ctrl-c", "ctrl-d"])
def test_leaving_a_terminal_leaves_it_as_it_was(terminal: Terminal, key: str) -> None:
    terminal.wait_for("Word 1 of 3")
    terminal.wait_for("> ")
    terminal.type(key)
    assert terminal.process.wait(20) == 130
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_nothing_is_written_to_a_redirected_stdout(tmp_path: Path, result: Path) -> None:
    out = tmp_path / "stdout"
    with out.open("wb") as stdout:
        terminal = Terminal(result, stdout.fileno())
        for number in (1, 2, 3):
            terminal.wait_for(f"Word {number} of 3")
            terminal.wait_for("> ")
            terminal.type("up\n")
        code = terminal.process.wait(20)
        terminal.close()
    assert code == 0
    assert json.loads(result.read_text()) == ["up"] * 3
    assert out.read_bytes() == b""


def test_answers_can_be_piped_in(result: Path) -> None:
    played = subprocess.run(
        [sys.executable, str(PLAYING), str(result)], input=b"a\nb\nc\n", capture_output=True, timeout=20, check=True
    )
    assert json.loads(result.read_text()) == ["a", "b", "c"]
    assert played.stdout == b""
    assert played.stderr.decode().startswith(ECHO.instructions)
    assert "> " not in played.stderr.decode()


def test_a_piped_input_that_ends_early_ends_the_play(result: Path) -> None:
    played = subprocess.run([sys.executable, str(PLAYING), str(result)], input=b"a\n", capture_output=True, timeout=20)
    assert played.returncode == 130
    assert not result.exists()
