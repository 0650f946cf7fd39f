"""Another project's software in a virtual environment of its own, made on the first run and asked over JSON lines."""

import json
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Rival:
    """A running process that answers one line with one line.

    Args:
        home: Where its environment is, or will be.
        pins: What to install there, one call of pip for each.
        command: What its Python runs.
        options: For `subprocess.Popen`: a folder, an environment, where its errors go.
    """

    def __init__(self, home: Path, pins: Sequence[Sequence[str]], command: Sequence[object], **options: Any) -> None:
        python = home / "bin" / "python"
        if not (home / "ready").exists():
            venv.create(home, with_pip=True, clear=True)
            for each in pins:
                subprocess.run([python, "-m", "pip", "install", "--quiet", *each], check=True)
            (home / "ready").touch()
        self._name = home.name
        line = [str(python), "-W", "ignore", *map(str, command)]
        pipe = subprocess.PIPE
        self._process: subprocess.Popen[str] = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True, **options)

    def ask(self, request: Any = None, /, **fields: Any) -> Any:
        """Send a request as JSON, or the fields of one, and return what the answer holds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(fields or request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self._name} died; run its side of this benchmark in its environment to see why")
        return json.loads(answer)

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
