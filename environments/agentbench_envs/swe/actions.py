"""What a tool does in a sandbox, and what it answers: text, and whether the call made sense."""

import shlex
from typing import Final, NamedTuple

from agentbench.sandbox.base import Result
from agentbench_envs.swe.repository import Repository
from agentbench_envs.swe.tools import Call

MOST_EDITED: Final = 2**20
"""Bytes of a file that can be edited."""

LISTED: Final = 100
"""Matches that a search shows."""

PAGE: Final = 200
"""Lines of a file that are shown unless the call says otherwise."""


class Answer(NamedTuple):
    """What the agent is told."""

    text: str
    valid: bool = True
    """False: the call could not be done as it was meant."""


class Workbench:
    """The tools of one episode.

    Args:
        repository: A prepared one.
        command_seconds: How long one command may take.
        output_chars: How much of an answer is shown; the middle goes first.
    """

    def __init__(self, repository: Repository, command_seconds: float, output_chars: int) -> None:
        self._repository = repository
        self._sandbox = repository.sandbox
        self._seconds = command_seconds
        self._chars = output_chars
        self._past: list[tuple[str, bytes | None]] = []

    def do(self, call: Call) -> Answer:
        """Use a tool other than `submit`."""
        try:
            answer = getattr(self, f"_{call.tool}")(**call.arguments)
        except OSError as error:
            answer = Answer(f"That cannot be done: {error}", valid=False)
        return Answer(shorten(answer.text, self._chars), answer.valid)

    def _bash(self, command: str) -> Answer:
        return self._told(self._exec(command))

    def _view(self, path: str, start: str = "1", end: str = "") -> Answer:
        try:
            first = int(start)
            last = int(end) if end else first + PAGE - 1
        except ValueError:
            return Answer(f"found lines {start[:20]!r} to {end[:20]!r}, expected two numbers", valid=False)
        name = shlex.quote(self._absolute(path))
        lines = f"test -r {name} && cat -n {name} | sed -n '{max(1, first)},{max(1, last)}p'"
        return self._try(f"if [ -d {name} ]; then ls -Ap {name}; else {lines}; fi", f"there is no file {path}")

    def _search(self, pattern: str, path: str = ".") -> Answer:
        name = shlex.quote(self._absolute(path))
        command = f"grep -rnIE --exclude-dir=.git -e {shlex.quote(pattern)} {name} | cut -c1-300 | head -n {LISTED}"
        answer = self._try(f"cd {self._repository.root} && ( set -o pipefail; {command} )", "nothing found")
        return Answer(answer.text.replace(f"{self._repository.root}/", "").replace("./", ""), valid=True)

    def _edit(self, path: str, old: str, new: str) -> Answer:
        before = self._sandbox.get(self._absolute(path), most=MOST_EDITED)
        found = before.count(old.encode(errors="surrogatepass")) if old else 0
        if found != 1:
            return Answer(f"the old text stands {found} times in {path}, expected exactly once", valid=False)
        self._write(path, before.replace(old.encode(), new.encode(errors="replace")), before)
        return Answer(f"Edited {path}.")

    def _create(self, path: str, text: str) -> Answer:
        try:
            self._sandbox.get(self._absolute(path), most=0)
        except FileNotFoundError:
            self._write(path, (text if text.endswith("\n") else text + "\n").encode(errors="replace"), None)
            return Answer(f"Created {path}.")
        except OSError:
            pass
        return Answer(f"{path} exists; change it with edit", valid=False)

    def _tests(self, paths: str = "") -> Answer:
        return self._told(self._exec(self._repository.visible_tests(paths)))

    def _undo(self) -> Answer:
        if not self._past:
            return Answer("there is nothing to take back", valid=False)
        path, before = self._past.pop()
        if before is None:
            return self._try(
                f"rm -f {shlex.quote(self._absolute(path))}", f"there is no file {path}", f"Removed {path}."
            )
        self._sandbox.put({self._absolute(path): before})
        return Answer(f"Took back the last edit of {path}.")

    def _write(self, path: str, after: bytes, before: bytes | None) -> None:
        self._sandbox.put({self._absolute(path): after})
        self._past.append((path, before))

    def _absolute(self, path: str) -> str:
        """Let a relative path begin at the repository, wherever the shell is."""
        return path if path.startswith("/") else f"{self._repository.root}/{path}"

    def _exec(self, command: str) -> Result:
        return self._sandbox.exec(self._repository.entered(command), timeout=self._seconds)

    def _try(self, command: str, otherwise: str, done: str = "") -> Answer:
        result = self._exec(f"( {command} )")
        if result.exit_code:
            return Answer(result.output.strip() or otherwise, valid=False)
        return Answer(done or result.output or "(nothing)")

    def _told(self, result: Result) -> Answer:
        """Say how a command ended, and what it wrote."""
        notes = [f"It did not end within {self._seconds:g} s and was killed."] * result.timed_out
        notes += ["The shell has ended; a new one was started."] * result.restarted
        return Answer("\n".join([f"Exit code: {result.exit_code}", *notes, result.output]).rstrip())


def shorten(text: str, most: int) -> str:
    """Keep head and tail of a text, and say what is missing between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"
