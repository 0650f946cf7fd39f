"""What the tests of identities share: how many examples, from what, and how equal."""

from typing import Any, get_args

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from agentbench.train.losses import Aggregation
from tests.train.episodes import Tensors, draw_episodes, whole

few = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
MODES: tuple[Aggregation, ...] = get_args(Aggregation)
CLIP: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.28}


def same(got: Tensor, want: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(got, want.expand_as(got), rtol=tolerance, atol=tolerance)


def draw(seed: int, **sizes: Any) -> Tensors:
    return whole(draw_episodes(seed, **sizes))
