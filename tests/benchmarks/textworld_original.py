"""The original, for `textworld_speed` and `textworld_fidelity`; has an environment of its own, imports nothing of ours.

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


class Watched:
    """A game that is played command by command, with all that another engine can be held against."""

    env: Any = None

    def reset(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open a game."""
        if self.env is not None:
            self.env.close()
        wanted = textworld.EnvInfos(
            admissible_commands=True, policy_commands=True, entities=True, score=True, won=True, lost=True
        )
        self.env = textworld.start(request["path"], wanted)
        return self.shown(self.env.reset())

    def step(self, request: dict[str, Any]) -> dict[str, Any]:
        """Say a command."""
        return self.shown(self.env.step(request["command"])[0])

    def shown(self, state: Any) -> dict[str, Any]:
        """Return what followed."""
        return {
            "admissible": state["admissible_commands"],
            "policy": state["policy_commands"],
            "entities": [name for name in state["entities"] if name],
            **{key: state[key] for key in ("score", "won", "lost")},
        }


def main() -> None:
    watched = Watched()
    answers = {"make": make, "play": play, "reset": watched.reset, "step": watched.step}
    for line in sys.stdin:
        request = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            answer = answers[request["what"]](request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
