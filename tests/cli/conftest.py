"""Environments in files, for commands to find."""

from pathlib import Path

import pytest

WORDS = """
import time
from dataclasses import replace
from agentbench.core.registry import Variant
from agentbench.testing import ECHO, EchoEnv

HOSTILE = "\\x1b[2J\\x1b]0;owned\\x07[bold]click[x] [/answer] :smile: \\u202e\\x00\\x9b31m\\ud800"


class Words(EchoEnv):
    def __init__(self, pause=0.0, hostile=False, **kwargs):
        super().__init__(**kwargs)
        self.pause, self.hostile = pause, hostile

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        return observation + HOSTILE * self.hostile, info

    def step(self, action):
        time.sleep(self.pause)
        if self.broken:
            raise RuntimeError("the chamber collapsed " + HOSTILE * self.hostile)
        return super().step(action)


class Finite(Words):
    task_count = 4


ENTRY = replace(ECHO, name="words", title="Words", entry_point=":Words", variants={
    "plain": Variant(),
    "slow": Variant({"pause": 0.01}),
    "hostile": Variant({"hostile": True}, instructions="Say. " + HOSTILE),
    "docker": Variant(needs=frozenset({"a-thing-nobody-has"})),
})
"""

BROKEN = WORDS.replace('":Words"', '":Finite"')


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A file that defines the environment `words`."""
    path = tmp_path / "words.py"
    path.write_text(WORDS)
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The same with four tasks; with `-E fail_on=[...]`, those fail."""
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    return path
