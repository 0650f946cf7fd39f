"""What a tool does in a sandbox, and what it answers: text, and whether the call made sense."""

import posixpath
import shlex
from typing import Final, NamedTuple

from agentbench.sandbox.base import Result
from agentbench_envs.swe.repository import Repository
from agentbench_envs.swe.tools import Call

MOST_EDITED: Final = 2**20
"""Bytes of a file that can be edited."""

LISTED: Final = 100
"""Matches that a search shows."""

WIDTH: Final = 300
"""Bytes of a line that a search shows, with its place."""

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
            first = max(1, int(start))
            last = int(end) if end else first + PAGE - 1
        except ValueError:
            first, last = 1, 0
        if last < first:
            return Answer(f"found lines {start[:20]!r} to {end[:20]!r}, expected two numbers in order", valid=False)
        name = shlex.quote(self._absolute(path))
        answer = self._try(
            f"if [ -d {name} ]; then ls -Ap {name}; exit; fi; [ -f {name} ] && [ -r {name} ] || exit 1; "
            f"if [ -s {name} ] && ! LC_ALL=C grep -qI '' {name}; then echo 'this is no text'; exit 1; fi; "
            f"cat -n {name} | sed -n '{first},{last}p;{last}q'",
            f"there is no file {path} that can be read",
        )
        if first > 1 and not answer.text:
            return Answer(f"{path} ends before line {first}", valid=False)
        return Answer(answer.text or "(nothing)", answer.valid)

    def _search(self, pattern: str, path: str = ".") -> Answer:
        root, name, wanted = f"{self._repository.root}/", shlex.quote(self._absolute(path)), shlex.quote(pattern)
        answer = self._try(
            f"test -e {name} || exit 1; grep -E -e {wanted} /dev/null; [ $? -lt 2 ] || exit 1; "
            f"grep -rHnIsE --exclude-dir=.git -e {wanted} {name} | cut -c1-{WIDTH} | head -n {LISTED}",
            f"there is no {path}",
        )
        found = "\n".join(line.removeprefix(root) for line in answer.text.split("\n"))
        return Answer(found or "nothing found", answer.valid)

    def _edit(self, path: str, old: str, new: str) -> Answer:
        before = self._sandbox.get(self._absolute(path), most=MOST_EDITED)
        found = before.count(old.encode()) if old else 0
        if found != 1:
            return Answer(f"the old text stands {found} times in {path}, expected exactly once", valid=False)
        try:
            self._sandbox.overwrite(self._absolute(path), before.replace(old.encode(), new.encode()))
        except OSError:  # No space, perhaps: what was there fits again.
            self._sandbox.overwrite(self._absolute(path), before)
            raise
        self._past.append((path, before))
        return Answer(f"Edited {path}.")

    def _create(self, path: str, text: str) -> Answer:
        try:
            self._sandbox.create(self._absolute(path), (text if text.endswith("\n") else text + "\n").encode())
        except FileExistsError:
            return Answer(f"something is at {path!r} already; change a file with edit", valid=False)
        self._past.append((path, None))
        return Answer(f"Created {path}.")

    def _tests(self, paths: str = "") -> Answer:
        return self._told(self._exec(self._repository.visible_tests(paths)))

    def _undo(self) -> Answer:
        if not self._past:
            return Answer("there is nothing to take back", valid=False)
        path, before = self._past[-1]
        if before is None:
            answer = self._try(f"rm -f {shlex.quote(self._absolute(path))}", "", f"Removed {path}.")
        else:
            self._sandbox.overwrite(self._absolute(path), before)
            answer = Answer(f"Took back the last edit of {path}.")
        if answer.valid:
            self._past.pop()
        return answer

    def _absolute(self, path: str) -> str:
        """Let a relative path begin at the repository, wherever the shell is."""
        return posixpath.normpath(posixpath.join(self._repository.root, path))

    def _exec(self, command: str) -> Result:
        return self._sandbox.exec(self._repository.entered(command), timeout=self._seconds)

    def _try(self, command: str, otherwise: str, done: str = "") -> Answer:
        result = self._exec(f"( {command} )")
        if result.exit_code:
            return Answer("\n".join([*self._mishaps(result), result.output.strip()]) or otherwise, valid=False)
        return Answer(done or result.output)

    def _told(self, result: Result) -> Answer:
        """Say how a command ended, and what it wrote."""
        return Answer("\n".join([f"Exit code: {result.exit_code}", *self._mishaps(result), result.output]).rstrip())

    def _mishaps(self, result: Result) -> list[str]:
        notes = [f"It did not end within {self._seconds:g} s and was killed."] * result.timed_out
        return notes + ["The shell has ended; a new one was started."] * result.restarted


def shorten(text: str, most: int) -> str:
    """Keep head and tail of a text, and say what is missing between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"
