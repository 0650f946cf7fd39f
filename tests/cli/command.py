"""Runs `agentbench` as a user does: in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

COMMAND = [str(Path(sys.executable).with_name("agentbench"))]


_UNWANTED = ("AGENTBENCH_", "PYTEST", "FORCE_COLOR", "NO_COLOR", "TTY_")


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout, one per line."""
        return [json.loads(line) for line in self.out.splitlines()]


def environment(**variables: str) -> dict[str, str]:
    """The variables that a command sees: a plain terminal, none of the user's settings, and those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_UNWANTED)}
    return {**kept, "TERM": "dumb", "COLUMNS": "200", **variables}


def start(*arguments: object, cwd: Path, **variables: str) -> "subprocess.Popen[str]":
    """Start a command in a folder."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def agentbench(*arguments: object, cwd: Path, **variables: str) -> Done:
    """Run a command in a folder and wait for its end."""
    process = start(*arguments, cwd=cwd, **variables)
    out, err = process.communicate(timeout=120)
    return Done(process.returncode, out, err)


def assert_one_clear_line(done: Done, code: int, *words: str) -> None:
    """Hold a refusal to its promise: the exit code, one line on stderr that says what is wrong, no traceback."""
    assert done.code == code, done
    assert "Traceback" not in done.err + done.out, done.err
    said = [line for line in done.err.splitlines() if line.strip()]
    assert len(said) == 1, said
    assert said[0].startswith("error: ")
    for word in words:
        assert word in said[0], said[0]
