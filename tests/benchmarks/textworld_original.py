"""The original's side of `textworld_speed`; runs in an environment of its own and imports nothing of ours.

One JSON request per line on standard input, one JSON answer per line on standard output.
"""

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import textworld

EPISODE = 50
"""Steps after which a game starts again; as in the other script. The `.json` backend slows down as a walk goes on."""


def make(request: dict[str, Any]) -> str:
    """Make a game with `tw-make` unless it is there."""
    path = Path(request["path"])
    if not path.exists():
        command = [Path(sys.executable).with_name("tw-make"), *request["arguments"], "--output", str(path), "--silent"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(path)


def play(request: dict[str, Any]) -> float:
    """Return seconds per step with admissible commands; time outside `step` is not counted."""
    wanted = textworld.EnvInfos(admissible_commands=True, score=True, won=True, lost=True)
    env = textworld.start(request["path"], wanted)
    state, spent = env.reset(), 0.0
    for turn, choice in enumerate(request["choices"], start=1):
        command = state["admissible_commands"][choice % len(state["admissible_commands"])]
        begin = time.perf_counter()
        state, _, done = env.step(command)
        spent += time.perf_counter() - begin
        if done or turn % EPISODE == 0:
            state = env.reset()
    env.close()
    return spent / len(request["choices"])


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            answer = make(request) if request["what"] == "make" else play(request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
