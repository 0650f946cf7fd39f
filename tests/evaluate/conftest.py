"""Environments in files, as a user would bring them."""

from collections.abc import Callable
from pathlib import Path

import pytest

FILE = '''
import time
from dataclasses import replace
from agentbench.core.env import Step
from agentbench.core.registry import Variant
from agentbench.testing import ECHO, EchoEnv


class Words(EchoEnv):
    """Echo with a finite list of tasks, or a pause in each step, or a failure on some seeds."""

    def __init__(self, length=3, split="test", fail_on=(), tasks=None, pause=0.0):
        super().__init__(length, split, fail_on)
        self.task_count = tasks
        self.pause = pause

    def step(self, action: str) -> Step:
        time.sleep(self.pause)
        return super().step(action)


ENTRY = replace(ECHO, name="words", title="Words", entry_point=":Words", splits=("train", "test"), variants={
    "endless": Variant(),
    "five": Variant({"tasks": 5}),
    "none": Variant({"tasks": 0}),
    "slow": Variant({"pause": 0.005}),
    "breaks": Variant({"tasks": 5, "fail_on": (1, 3)}),
    "docker": Variant(needs=frozenset({"a thing nobody has"})),
})
'''


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A file that defines the environment `words`."""
    path = tmp_path / "words.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where runs go."""
    return tmp_path / "runs"


@pytest.fixture
def config_of(words: Path, out: Path) -> Callable[..., dict[str, object]]:
    """Makes the values of a configuration of `words`."""

    def values(variant: str = "endless", **more: object) -> dict[str, object]:
        return {"model": "oracle", "env": f"{words}/{variant}", "episodes": 12, "jobs": 4, "out": str(out), **more}

    return values
