"""What the tests of training share: one thread, and small recipes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from agentbench.train.config import TrainConfig

FAKES = """\
from dataclasses import replace
from agentbench.testing import {name} as ENTRY
"""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], str]:
    """Return the `--env` value of one of the environments in `agentbench.testing`."""

    def write(name: str) -> str:
        file = tmp_path / f"{name.lower()}_env.py"
        file.write_text(FAKES.format(name=name))
        return str(file)

    return write


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., TrainConfig]:
    """Return a small recipe with some keys changed."""

    def parse(**changes: Any) -> TrainConfig:
        base: dict[str, Any] = {
            "model": "init:xs",
            "budget": {"updates": 3},
            "rollout": {"episodes": 16, "max_tokens": 8},
            "validation": {"every": 0, "episodes": 8},
            "optim": {"lr": 1e-3, "warmup": 0},
            "out": str(tmp_path / "runs"),
        }
        return TrainConfig.parse({**base, **changes})

    return parse
