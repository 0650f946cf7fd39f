"""An environment that does what it is told, to try out what can go wrong in another process."""

import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

from agentbench.core import errors
from agentbench.core.env import Env, Step
from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm


class OddEnv(Env):
    def __init__(self, split: str = "test") -> None:
        self.children: list[subprocess.Popen[bytes]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return "Say something.", {"valid": True}

    def step(self, action: str) -> Step:
        verb, _, rest = action.partition(" ")
        answer, info = getattr(self, "do_" + verb)(rest)
        return Step(answer, 0.0, False, False, {"valid": True, **info})

    def do_say(self, text: str) -> tuple[str, dict[str, Any]]:
        return text, {}

    def do_sleep(self, text: str) -> tuple[str, dict[str, Any]]:
        time.sleep(float(text))
        return "slept", {}

    def do_spin(self, text: str) -> tuple[str, dict[str, Any]]:
        while True:
            pass

    def do_raise(self, text: str) -> tuple[str, dict[str, Any]]:
        if text == "Failure":
            raise errors.Failure("sandbox", "as you wish")
        kind = getattr(errors, text, None) or {"RuntimeError": RuntimeError, "MemoryError": MemoryError}[text]
        raise kind("as you wish")

    def do_give(self, text: str) -> tuple[str, dict[str, Any]]:
        return "given", {"image": b"\x89PNG\x00", "count": np.int64(3)} if text == "image" else {"it": object()}

    def do_print(self, text: str) -> tuple[str, dict[str, Any]]:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        os.write(1, b'{"id": 0, "result": 1}\n')
        return "printed", {}

    def do_warn(self, text: str) -> tuple[str, dict[str, Any]]:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
        return "warned", {}

    def do_exit(self, text: str) -> tuple[str, dict[str, Any]]:
        os._exit(int(text))

    def do_spawn(self, text: str) -> tuple[str, dict[str, Any]]:
        self.children.append(subprocess.Popen(["sleep", "1000"]))
        return str(self.children[-1].pid), {}


ENTRY = EnvEntry(
    name="odd",
    title="Odd",
    version=0,
    entry_point=":OddEnv",
    instructions="Say something.",
    max_turns=5,
    reward=RewardSpec((RewardTerm("nothing"),)),
    variants={"odd": Variant()},
)
