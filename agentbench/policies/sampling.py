"""Drawing tokens, so that a reply depends on its own seed and on nobody else's.

Token t of a reply is drawn with the t-th number of a counter-based generator (Philox) keyed by the reply's seed, by
inverting the cumulative distribution over the vocabulary. Who shares the batch can only change the logits in their last
bits, so that a draw changes only where the number lies within about 1e-6 (float32) of a boundary between two tokens; a
greedy choice only where the two best logits are that close.

What is recorded is log softmax(logits / T) and its entropy, before top-k and top-p; at T = 1 for greedy replies.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agentbench.core.types import Sampling

BLOCK = 64
"""Numbers made at a time; a multiple of it does not change the stream."""


class Drawn(NamedTuple):
    """One token per row."""

    tokens: list[int]
    logprobs: list[float]
    entropies: list[float]


class Uniforms:
    """The numbers in [0, 1) of one reply: the t-th depends on the seed and on t only."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=seed % 2**128))
        self._numbers: list[float] = []

    def __getitem__(self, index: int) -> float:
        while index >= len(self._numbers):
            self._numbers += self._generator.random(BLOCK).tolist()
        return self._numbers[index]


def draw(logits: Tensor, samplings: Sequence[Sampling], uniforms: Sequence[float]) -> Drawn:
    """Draw one token per row, and record its log-probability and the entropy that it was drawn at.

    Args:
        logits: Shape [rows, vocabulary].
        samplings: How each row is drawn.
        uniforms: A number in [0, 1) per row; greedy rows ignore it.
    """
    logits = logits.float()
    greedy = [sampling.temperature == 0 for sampling in samplings]
    tokens = logits.argmax(-1) if any(greedy) else None
    log_probs = torch.log_softmax(_tempered(logits, samplings), -1)
    probs = log_probs.exp()
    entropies = torch.special.entr(probs).sum(-1)
    if not all(greedy):
        drawn = invert(_likely(probs, samplings), uniforms)
        tokens = drawn if tokens is None else torch.where(torch.tensor(greedy, device=logits.device), tokens, drawn)
    assert tokens is not None
    chosen = log_probs.gather(-1, tokens[:, None])[:, 0]
    recorded = torch.stack([chosen, entropies]).tolist()
    return Drawn(tokens.tolist(), *recorded)


def invert(probs: Tensor, uniforms: Sequence[float]) -> Tensor:
    """Return, per row, the first token whose cumulative probability exceeds the number. Rows need not sum to one."""
    exact = torch.float32 if probs.device.type == "mps" else torch.float64  # Metal has no float64
    cumulated = probs.to(exact).cumsum(-1)
    numbers = torch.tensor(uniforms, dtype=exact, device=probs.device)[:, None]
    found = torch.searchsorted(cumulated, numbers * cumulated[:, -1:], right=True)
    return found.clamp_(max=probs.shape[-1] - 1)[:, 0]


def _tempered(logits: Tensor, samplings: Sequence[Sampling]) -> Tensor:
    temperatures = [sampling.temperature or 1.0 for sampling in samplings]
    if all(temperature == 1.0 for temperature in temperatures):
        return logits
    return logits / torch.tensor(temperatures, device=logits.device)[:, None]


def _likely(probs: Tensor, samplings: Sequence[Sampling]) -> Tensor:
    """Set to zero what top-k leaves out, and then what top-p leaves out of the rest, as transformers does."""
    if all(sampling.top_k <= 0 and sampling.top_p >= 1 for sampling in samplings):
        return probs
    size = probs.shape[-1]
    top_k = torch.tensor([s.top_k if s.top_k > 0 else size for s in samplings], device=probs.device)[:, None]
    top_p = torch.tensor([min(s.top_p, 1.0) for s in samplings], device=probs.device)[:, None]
    ranked, order = probs.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(size, device=probs.device)
    ranked = ranked * (rank < top_k)
    before = (ranked.cumsum(-1) - ranked) / ranked.sum(-1, keepdim=True)
    ranked = ranked * ((before < top_p) | (top_p >= 1) | (rank == 0))
    return torch.zeros_like(probs).scatter(-1, order, ranked)
