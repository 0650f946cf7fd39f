"""Tiny models, one thread, and a way to play a few turns."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from agentbench.policies.checkpoint import Checkpoint, load_checkpoint
from agentbench.policies.hf import HFPolicy
from agentbench.policies.init import byte_tokenizer
from agentbench.testing import Architecture, tiny_model

Load = Callable[[Architecture], Checkpoint]
Make = Callable[..., HFPolicy]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Load a tiny model of an architecture; each is made once."""
    loaded: dict[Architecture, Checkpoint] = {}

    def get(architecture: Architecture) -> Checkpoint:
        if architecture not in loaded:
            folder: Path = tmp_path_factory.mktemp(architecture)
            loaded[architecture] = load_checkpoint(tiny_model(folder, architecture))
        return loaded[architecture]

    return get


@pytest.fixture
def make(load: Load) -> Iterator[Make]:
    """Make policies of the tiny Qwen3 model (or of the checkpoint that is given), and close them in the end."""
    made: list[HFPolicy] = []

    def get(checkpoint: Checkpoint | None = None, **options: Any) -> HFPolicy:
        made.append(HFPolicy(checkpoint or load("qwen3"), **options))
        return made[-1]

    yield get
    for policy in made:
        policy.close()


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return byte_tokenizer()
