"""What every test may use."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def scale() -> float:
    """Multiplies the sizes of the expensive tests; `make soak` sets it, CI keeps 1."""
    return float(os.environ.get("AGENTBENCH_SCALE", "1"))


@pytest.fixture
def golden() -> Path:
    """The folder of data recorded from the original environments and algorithms."""
    return Path(__file__).parent / "data" / "golden"
