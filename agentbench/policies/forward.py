"""Forward passes over the contexts of live conversations: what the engine asks of a model.

A `Lane` is the model's side of one conversation. A *backend* appends tokens to lanes and returns the logits behind the
last one. `SlotBackend` does so for many lanes at once, in the arena of `cache.py`; it is right for every decoder whose
cache is plain attention over the whole context. For the others (a sliding window that bites, state space models,
ALiBi) `SoloBackend` is slower and right: one lane at a time, prefilled anew for each reply, with the model's own cache,
or with none. `choose_backend` does not trust names of architectures: it compares each candidate with the model's plain
forward.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from agentbench.core.errors import Failure
from agentbench.policies.cache import LayerShape, SlotCache

STEP = 64
"""The arena's length is a multiple of this."""
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


class SlotBackend:
    """Many lanes in one pass, their keys and values in slots of one arena.

    Args:
        model: A decoder with plain attention.
        shapes: What its layers keep of a position.
        memory_limit: Bytes that the arena may take.
    """

    def __init__(self, model: PreTrainedModel, shapes: Sequence[LayerShape], memory_limit: int) -> None:
        self.value_head: ValueHead | None = None
        self.memory_limit = memory_limit
        self._call = Caller(model)
        self._cache = SlotCache(shapes, model.device)
        self._masked = torch.finfo(model.dtype).min
        self._dtype = model.dtype
        self._holders: list[Lane | None] = []
        self._clock = 0
        self._widest = sys.maxsize
        self._narrowed = False

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena."""
        return self._bytes(self._cache.plan.slots, self._cache.plan.length)

    def reserve(self, lane: Lane, positions: int) -> bool:
        """Find or make a slot; take it from the lane that was idle for longest if there must be."""
        self._clock += 1
        lane.touched, lane.reserved = self._clock, positions
        if positions <= self._cache.plan.length and (lane.slot >= 0 or self._take_slot(lane)):
            return True
        return self._rebuild(lane)

    def rewind(self, lane: Lane, keep: int) -> int:
        """Forget the tail of a lane; what lies behind it in the slot is masked from now on."""
        del lane.ids[keep:]
        return len(lane.ids)

    def step(self, feeds: Sequence[Feed]) -> Output:
        """One forward pass for all feeds; once the device ran out of memory, several of half the size."""
        if len(feeds) > self._widest:
            return _joined([self.step(feeds[i : i + self._widest]) for i in range(0, len(feeds), self._widest)])
        try:
            return self._pass(feeds)
        except RuntimeError as error:
            if len(feeds) == 1 or self._narrowed or not is_out_of_memory(error):
                raise
            self._narrowed, self._widest = True, len(feeds) // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return self.step(feeds)

    def _pass(self, feeds: Sequence[Feed]) -> Output:
        cache = self._cache
        starts = [len(feed.lane.ids) for feed in feeds]
        counts = [len(feed.ids) for feed in feeds]
        positions = cache.open([feed.lane.slot for feed in feeds], starts, counts)
        width = cache.plan.width
        padded = [[0] * (width - len(feed.ids)) + feed.ids for feed in feeds]
        visible = torch.arange(cache.plan.seen, device=cache.device) <= positions[:, :, None]
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=cache.device).masked_fill_(~visible, self._masked)
        output, _ = self._call(
            self.value_head,
            input_ids=torch.tensor(padded, device=cache.device),
            position_ids=positions,
            attention_mask=mask[:, None],
            past_key_values=cache,
            use_cache=True,
        )
        for feed in feeds:
            feed.lane.ids += feed.ids
        return output

    def rest(self, lane: Lane) -> None:
        """Keep everything: the next turn adds to it."""
        lane.reserved = len(lane.ids)

    def release(self, lane: Lane) -> None:
        """Give the slot back."""
        if lane.slot >= 0:
            self._holders[lane.slot] = None
        lane.slot, lane.ids = -1, []

    def _take_slot(self, lane: Lane) -> bool:
        """Give the lane a free slot, or, where the arena cannot grow, that of the longest idle lane."""
        plan = self._cache.plan
        if None not in self._holders:
            idle = min((held for held in self._held() if not held.busy), key=lambda held: held.touched, default=None)
            if idle is None or self._bytes(plan.slots + 1, plan.length) <= self.memory_limit:
                return False
            self.release(idle)
        lane.slot = self._holders.index(None)
        self._holders[lane.slot] = lane
        return True

    def _rebuild(self, lane: Lane) -> bool:
        """Reshape the arena so that the lane fits, dropping idle lanes where memory asks for it."""
        others = [held for held in self._held() if held is not lane]
        kept = sorted(others, key=lambda held: (held.busy, held.touched), reverse=True)
        while not self._fits([lane, *kept]):
            if not kept:
                need = self._bytes(1, _length([lane])) >> 20
                limit = self.memory_limit >> 20
                raise Failure("memory", f"a context of {lane.reserved} tokens needs {need} MiB of {limit} MiB of cache")
            if kept[-1].busy:
                return False
            self.release(kept.pop())
        self._reshape([*([lane] if lane.slot >= 0 else []), *kept], lane)
        return True

    def _reshape(self, keep: list[Lane], lane: Lane) -> None:
        """Move what is kept into a new arena, with room to grow where the memory allows."""
        lanes = keep if lane in keep else [*keep, lane]
        plan = self._cache.plan
        slots, length = len(lanes), _length(lanes)
        roomy = (_grown(plan.slots, slots, 2.0), _grown(plan.length, length, 1.5))
        for wish in (roomy, (slots, max(length, plan.length)), (slots, length)):
            if self._bytes(*wish) <= self.memory_limit:
                slots, length = wish
                break
        keep.sort(key=lambda held: held.slot)
        kept_slots = [held.slot for held in keep]
        self._holders = [None] * slots
        self._cache.reshape(slots, length, kept_slots)
        for slot, held in enumerate([*keep, *([] if lane in keep else [lane])]):
            held.slot, self._holders[slot] = slot, held

    def _held(self) -> list[Lane]:
        return [lane for lane in self._holders if lane is not None]

    def _fits(self, lanes: Sequence[Lane]) -> bool:
        return self._bytes(len(lanes), _length(lanes)) <= self.memory_limit

    def _bytes(self, slots: int, length: int) -> int:
        return slots * length * self._cache.position_bytes


class SoloBackend:
    """One lane after another, each prefilled anew for every reply.

    Args:
        model: Any causal language model.
        cached: Use the model's own cache within a reply; else every token costs a pass over the whole context.
    """

    arena_bytes = 0

    def __init__(self, model: PreTrainedModel, *, cached: bool) -> None:
        self.value_head: ValueHead | None = None
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
        return _joined([self._one(feed) for feed in feeds])

    def rest(self, lane: Lane) -> None:
        """Drop the cache; the next reply does not use it."""
        self.release(lane)

    def release(self, lane: Lane) -> None:
        """Drop the cache."""
        lane.own_cache, lane.ids = None, []

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


def choose_backend(model: PreTrainedModel, *, context_limit: int, memory_limit: int) -> Backend:
    """Return the fastest backend that gives the logits of the model's plain forward."""
    with torch.inference_mode():
        shapes = _layer_shapes(model, context_limit)
        if shapes is not None and _agrees(model, SlotBackend(model, shapes, sys.maxsize)):
            return SlotBackend(model, shapes, memory_limit)
        return SoloBackend(model, cached=_agrees(model, SoloBackend(model, cached=True)))


def _layer_shapes(model: PreTrainedModel, context_limit: int) -> list[LayerShape] | None:
    """Return what each layer keeps of a position, or None if that is not keys and values of every position."""
    try:
        layers = DynamicCache(config=model.config.get_text_config(decoder=True)).layers
        cache = DynamicCache(config=model.config.get_text_config(decoder=True))
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device), past_key_values=cache, use_cache=True)
        plain = all(type(layer).__name__ == "DynamicLayer" or _never_slides(layer, context_limit) for layer in layers)
        if not plain or not cache.layers:
            return None
        return [_shape(layer) for layer in cache.layers]
    except Exception:  # whatever a foreign architecture raises here, it is not one for the arena
        return None


def _never_slides(layer: Any, context_limit: int) -> bool:
    return type(layer).__name__ == "DynamicSlidingWindowLayer" and layer.sliding_window >= context_limit


def _shape(layer: Any) -> LayerShape:
    return LayerShape(layer.keys.shape[1], layer.keys.shape[-1], layer.values.shape[-1], layer.keys.dtype)


def _agrees(model: PreTrainedModel, backend: Backend) -> bool:
    """Compare a backend with the plain forward on two contexts of different age, fed in uneven pieces."""
    size: int = model.get_input_embeddings().weight.shape[0]  # type: ignore[index,assignment]
    contexts = [[(17 * i + 3) % size for i in range(11)], [(29 * i + 5) % size for i in range(7)]]
    lanes = [Lane(), Lane()]
    try:
        for lane in lanes:
            backend.reserve(lane, STEP)
        for cuts in (((0, 6), (0, 3)), ((6, 10), (3, 6)), ((10, 11), (6, 7))):
            feeds = [Feed(lane, ids[a:b]) for lane, ids, (a, b) in zip(lanes, contexts, cuts, strict=True)]
            got = backend.step(feeds).logits.float()
        plain = [model(torch.tensor([ids], device=model.device), use_cache=False).logits[:, -1] for ids in contexts]
    except torch.OutOfMemoryError:
        raise
    except Exception:  # the same
        return False
    want = torch.cat(plain).float()
    return bool((got - want).abs().max() <= TOLERANCE.get(model.dtype, 0.3) * want.std())


def _joined(outputs: Sequence[Output]) -> Output:
    values = [output.values for output in outputs if output.values is not None]
    return Output(torch.cat([output.logits for output in outputs]), torch.cat(values) if values else None)


def _length(lanes: Sequence[Lane]) -> int:
    """Positions that a slot needs for these lanes, rounded up."""
    return -(-max(lane.reserved for lane in lanes) // STEP) * STEP


def _grown(present: int, needed: int, factor: float) -> int:
    """Grow by more than is needed, so that growing stays rare."""
    return present if needed <= present else max(needed, int(factor * present))
