"""Forward passes over the contexts of live conversations: what the engine asks of a model.

A `Lane` is the model's side of one conversation. A *backend* appends tokens to lanes and returns the logits behind the
last one. `SlotBackend` (`slots.py`) does so for many lanes at once, in the arena of `cache.py`; it is right for every
decoder whose cache is plain attention over the whole context. For the others (a sliding window that bites, state
space models, ALiBi) `SoloBackend` is slower and right: one lane at a time, prefilled anew for each reply, with the
model's own cache, or with none. `probe.py` chooses, by comparing both with the model's plain forward.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.3}
"""How far a backend's logits may be from the plain forward's, in standard deviations of the logits; wrong masks and
positions are off by far more, rounding by far less."""

ValueHead = Callable[[Tensor], Tensor]
"""Maps last hidden states [rows, width] to values [rows]."""


@dataclass(eq=False, slots=True)
class Lane:
    """The model's side of one conversation."""

    ids: list[int] = field(default_factory=list)
    """The tokens whose keys and values are kept."""
    slot: int = -1
    reserved: int = 0
    """Positions promised to the reply in progress."""
    busy: bool = False
    """A reply is in progress."""
    touched: int = 0
    """When it was last used; the idle lane with the lowest number is the first to lose its slot."""
    own_cache: Any = None
    """`SoloBackend`'s: the model's own cache."""


class Feed(NamedTuple):
    """Tokens to append to a lane."""

    lane: Lane
    ids: list[int]


class Output(NamedTuple):
    """What stands behind the last token of each feed."""

    logits: Tensor
    """Shape [feeds, vocabulary]."""
    values: Tensor | None
    """Shape [feeds], where there is a value head."""


class Backend(Protocol):
    """Appends tokens to lanes."""

    value_head: ValueHead | None
    expected: int
    """Conversations that are open: so many lanes may come."""

    @property
    def arena_bytes(self) -> int:
        """Memory that live conversations hold."""
        ...

    def reserve(self, lane: Lane, positions: int) -> bool:
        """Make room for a context of so many positions; False if a busy lane must end first."""
        ...

    def rewind(self, lane: Lane, keep: int) -> int:
        """Forget all but the first `keep` tokens of a lane; return how many are kept indeed."""
        ...

    def step(self, feeds: Sequence[Feed]) -> Output:
        """Append tokens to lanes, in one pass where that is possible."""
        ...

    def rest(self, lane: Lane) -> None:
        """A reply ended; what the lane holds may be wanted again."""
        ...

    def release(self, lane: Lane) -> None:
        """Forget a lane."""
        ...

    def clear(self, lanes: Iterable[Lane]) -> None:
        """Forget these lanes, which are all there are, and free their memory."""
        ...


class Caller:
    """Calls a model for the logits of the last position, whatever its forward is able to take."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.keeps_last = "logits_to_keep" in inspect.signature(model.forward).parameters

    def __call__(self, head: ValueHead | None, **inputs: Any) -> tuple[Output, Any]:
        """Return logits (and values) of the last position, and everything else that the model returned."""
        if self.keeps_last:
            inputs["logits_to_keep"] = 1
        if head is not None:
            inputs["output_hidden_states"] = True
        result = self.model(**inputs)
        values = None if head is None else head(result.hidden_states[-1][:, -1])
        return Output(result.logits[:, -1], values), result


class SoloBackend:
    """One lane after another, each prefilled anew for every reply.

    Args:
        model: Any causal language model.
        cached: Use the model's own cache within a reply; else every token costs a pass over the whole context.
    """

    arena_bytes = 0

    def __init__(self, model: PreTrainedModel, *, cached: bool) -> None:
        self.value_head: ValueHead | None = None
        self.expected = 1
        self._call = Caller(model)
        self._device = model.device
        self._cached = cached

    def reserve(self, lane: Lane, positions: int) -> bool:
        """There is no arena to fill."""
        return True

    def rewind(self, lane: Lane, keep: int) -> int:
        """Forget everything: not every cache can be cut."""
        self.release(lane)
        return 0

    def step(self, feeds: Sequence[Feed]) -> Output:
        """One pass per feed."""
        return joined([self._one(feed) for feed in feeds])

    def rest(self, lane: Lane) -> None:
        """Drop the cache; the next reply does not use it."""
        self.release(lane)

    def release(self, lane: Lane) -> None:
        """Drop the cache."""
        lane.own_cache, lane.ids = None, []

    def clear(self, lanes: Iterable[Lane]) -> None:
        """Drop all caches."""
        for lane in lanes:
            self.release(lane)

    def _one(self, feed: Feed) -> Output:
        lane, ids = feed
        inputs: dict[str, Any] = {"use_cache": self._cached}
        if lane.own_cache is not None:
            inputs["past_key_values"] = lane.own_cache
        fed = ids if self._cached else lane.ids + ids
        output, result = self._call(self.value_head, input_ids=torch.tensor([fed], device=self._device), **inputs)
        lane.own_cache = result.past_key_values if self._cached else None
        lane.ids += ids
        return output


def is_out_of_memory(error: Exception) -> bool:
    """Recognise an exhausted device; PyTorch has no class of its own for the CPU's."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def joined(outputs: Sequence[Output]) -> Output:
    """Put the outputs of several passes together."""
    values = [output.values for output in outputs if output.values is not None]
    return Output(torch.cat([output.logits for output in outputs]), torch.cat(values) if values else None)
