"""Writing one token per row on a GPU, recorded once and replayed.

A small pass on a big GPU is bound by the host, which launches some hundred kernels one by one. A CUDA graph launches
them at once. It needs fixed shapes and addresses, and here that costs little: a recording covers all slots of the arena
and the first `SPAN`, 2 `SPAN`, ... positions; rows that do not take part write to the spare position behind the arena.

Inside a recording, query heads that share keys become the rows of one attention problem (grouped-query attention,
Ainslie et al. 2023, with one new token): keys and values are read once, where transformers repeats them per query head.

Each recording is compared with the plain pass when it is made; a model for which they differ gets no recordings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from agentbench.policies.cache import SlotCache
from agentbench.policies.forward import Feed, Output, ValueHead

SPAN = 256
"""Recordings are made for contexts up to each multiple of so many positions."""
SPARSE = 2.0
"""Slots per row up to which computing all slots is cheaper than launching kernels for the rows alone."""
GROUPED = "agentbench-grouped"

Pass = Callable[[Tensor, Tensor, ValueHead | None], Output]
"""Runs the model, and the critic where there is one, on ids and positions of shape [slots, 1]."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A pass over all slots that a GPU repeats."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    """Shape [3, slots]: token, position, and whether the slot takes part."""
    output: Output


class Recorder:
    """Makes and replays recordings for one model and its arena.

    Args:
        model: On a GPU.
        cache: The arena; a change of its shape makes all recordings void (`forget`).
        run: One pass over all slots, with the cache's plan as it stands.
        tolerance: How far logits may be from the plain pass, in standard deviations of the logits.
    """

    def __init__(self, model: PreTrainedModel, cache: SlotCache, run: Pass, tolerance: float) -> None:
        self.faithful = True
        self._model = model
        self._cache = cache
        self._run = run
        self._tolerance = tolerance
        self._recordings: dict[tuple[int, ValueHead | None], Recording] = {}
        self._weights: tuple[int, ...] = ()
        self._pool: Any = None

    def suits(self, feeds: Sequence[Feed]) -> bool:
        """Tell whether a pass is worth a recording: one token for each of many of the slots."""
        return (
            self.faithful
            and all(len(feed.ids) == 1 for feed in feeds)
            and self._cache.plan.slots <= SPARSE * len(feeds)
        )

    def step(self, feeds: Sequence[Feed], head: ValueHead | None) -> Output:
        """Append one token to each lane; returns rows in the order of the feeds."""
        plan = self._cache.plan
        inputs = torch.zeros(3, plan.slots, dtype=torch.long)
        slots = torch.tensor([feed.lane.slot for feed in feeds])
        inputs[0, slots] = torch.tensor([feed.ids[0] for feed in feeds])
        inputs[1, slots] = torch.tensor([len(feed.lane.ids) for feed in feeds])
        inputs[2, slots] = 1
        longest = max(len(feed.lane.ids) for feed in feeds) + 1
        seen = min(-(-longest // SPAN) * SPAN, plan.length)
        recording = self._recordings.get((seen, head))
        if recording is None:
            output = self._record(seen, head, inputs.to(self._cache.device))
        else:
            recording.inputs.copy_(inputs)
            recording.graph.replay()
            output = recording.output
        rows = slots.to(output.logits.device)
        return Output(output.logits[rows], None if output.values is None else output.values[rows])

    def forget(self) -> None:
        """Drop all recordings: the arena is another."""
        self._recordings.clear()
        self._pool = None

    def check_weights(self) -> None:
        """Drop all recordings if the weights have moved in memory; called where new weights are first used."""
        weights = tuple(weight.data_ptr() for weight in self._model.parameters())
        if weights != self._weights:
            self.forget()
        self._weights = weights

    def _record(self, seen: int, head: ValueHead | None, inputs: Tensor) -> Output:
        """Do the pass plainly, and record it for the next time if a recording gives the same."""
        plain = self._pass(inputs, seen, head)
        try:
            recording = self._recorded(seen, head, inputs)
        except RuntimeError:  # a model that waits for the GPU within its pass, or no memory left for the recording
            self.faithful = False
            return plain
        recording.graph.replay()
        live = inputs[2].bool()
        got, want = recording.output.logits[live].float(), plain.logits[live].float()
        self.faithful = bool((got - want).abs().max() <= self._tolerance * want.std())
        self._recordings[seen, head] = recording
        return plain

    def _recorded(self, seen: int, head: ValueHead | None, inputs: Tensor) -> Recording:
        """Record the pass over the first `seen` positions."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        config = self._model.config
        usual = config._attn_implementation
        try:
            config._attn_implementation = GROUPED if usual == "sdpa" else usual
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._pass(inputs, seen, head)  # libraries choose their kernels here, and not while recording
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                output = self._pass(inputs, seen, head)
        finally:
            config._attn_implementation = usual
        return Recording(graph, inputs, output)

    def _pass(self, inputs: Tensor, seen: int, head: ValueHead | None) -> Output:
        """Run the model on all slots; what takes no part writes to the spare position and sees position 0 only."""
        plan = self._cache.plan
        tokens, positions, live = inputs
        own = torch.arange(plan.slots, device=inputs.device) * plan.length + positions
        plan.width, plan.seen, plan.rows = 1, seen, slice(0, plan.slots)
        plan.write = torch.where(live.bool(), own, plan.slots * plan.length)
        return self._run(tokens[:, None], positions[:, None], head)


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Attention of one new token per row, with the query heads that share a key head as rows of one problem.

    Args:
        module: The layer; not used.
        query: Shape [rows, heads, 1, width].
        key: Shape [rows, key heads, positions, width]; `heads` is a multiple of `key heads`.
        value: Shape [rows, key heads, positions, value width].
        attention_mask: Added to the scores; shape [rows, 1, 1, positions].
        scaling: Factor of the scores; 1 / sqrt(width) where None.
        **kwargs: Ignored.

    Returns:
        Shape [rows, 1, heads, value width], and no weights.
    """
    rows, heads = query.shape[:2]
    shared = query.reshape(rows, key.shape[1], heads // key.shape[1], query.shape[-1])
    out = scaled_dot_product_attention(shared, key, value, attn_mask=attention_mask, scale=scaling)
    return out.reshape(rows, 1, heads, value.shape[-1]), None


AttentionInterface.register(GROUPED, grouped_attention)
