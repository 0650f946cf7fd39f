"""Many conversations in one forward pass: the backend that evaluation and training live on.

Every lane keeps its slot of the arena (`cache.py`) between turns. When the arena is full, it grows; when it may not
grow any more, the lane that was idle for longest loses its slot and is prefilled anew when it comes back; when no lane
is idle, the next one has to wait.
"""

import sys
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentbench.core.errors import Failure
from agentbench.policies.cache import ALIGNED, LayerShape, SlotCache
from agentbench.policies.forward import TOLERANCE, Caller, Feed, Lane, Output, ValueHead, is_out_of_memory, joined
from agentbench.policies.graphs import Recorder

STEP = 64
"""The arena's length is a multiple of this."""
GAPS = 1.25
"""Rows between the first and the last slot of a pass, per row that is wanted, up to which it is cheaper to compute the
rows between than to copy the keys and values of the wanted ones together."""


class SlotBackend:
    """Many lanes in one pass, their keys and values in slots of one arena.

    Args:
        model: A decoder with plain attention.
        shapes: What its layers keep of a position.
        memory_limit: Bytes that the arena may take.
    """

    def __init__(self, model: PreTrainedModel, shapes: Sequence[LayerShape], memory_limit: int) -> None:
        self.value_head: ValueHead | None = None
        self.expected = 1
        self.memory_limit = memory_limit
        self._call = Caller(model)
        self._cache = SlotCache(shapes, model.device)
        self._masked = torch.finfo(model.dtype).min
        self._dtype = model.dtype
        self._holders: list[Lane | None] = []
        self._clock = 0
        self._widest = sys.maxsize
        self._narrowed = False
        on_gpu = model.device.type == "cuda"
        self.recorder = Recorder(model, self._cache, self._run, TOLERANCE.get(model.dtype, 0.3)) if on_gpu else None

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
            return joined([self.step(feeds[i : i + self._widest]) for i in range(0, len(feeds), self._widest)])
        try:
            return self._pass(feeds)
        except RuntimeError as error:
            if len(feeds) == 1 or self._narrowed or not is_out_of_memory(error):
                raise
            self._narrowed, self._widest = True, len(feeds) // 2
        if self.recorder is not None:
            self.recorder.faithful = False  # a recording computes all slots, and they are too many
            self.recorder.forget()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return self.step(feeds)

    def _pass(self, wanted: Sequence[Feed]) -> Output:
        if self.recorder is not None:
            if self.recorder.suits(wanted):
                return self._noted(wanted, self.recorder.step(wanted, self.value_head))
            self.recorder.check_weights()
        cache = self._cache
        feeds = _spanned(wanted)
        starts = [len(feed.lane.ids) for feed in feeds]
        counts = [len(feed.ids) for feed in feeds]
        positions = cache.open([feed.lane.slot for feed in feeds], starts, counts)
        width = cache.plan.width
        padded = [[0] * (width - len(feed.ids)) + feed.ids for feed in feeds]
        output = self._run(torch.tensor(padded, device=cache.device), positions, self.value_head)
        return self._noted(wanted, output if len(feeds) == len(wanted) else _picked(output, feeds, wanted))

    def _run(self, ids: Tensor, positions: Tensor, head: ValueHead | None) -> Output:
        """Run the model on ids and positions, each of shape [rows, new tokens], as the cache's plan says."""
        cache = self._cache
        visible = torch.arange(cache.plan.seen, device=cache.device) <= positions[:, :, None]
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=cache.device).masked_fill_(~visible, self._masked)
        output, _ = self._call(
            head,
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask[:, None],
            past_key_values=cache,
            use_cache=True,
        )
        return output

    def _noted(self, feeds: Sequence[Feed], output: Output) -> Output:
        """Note what the lanes now hold."""
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

    def clear(self, lanes: Iterable[Lane]) -> None:
        """Give all slots and the arena itself back."""
        for lane in lanes:
            lane.slot, lane.ids = -1, []
        self._holders = []
        self._reshape_cache(0, 0)

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
        roomy = (max(_grown(plan.slots, slots, 2.0), self.expected), _grown(plan.length, length, 1.5))
        for wish in (roomy, (slots, max(length, plan.length)), (slots, length)):
            if self._bytes(*wish) <= self.memory_limit:
                slots, length = wish
                break
        keep.sort(key=lambda held: held.slot)
        kept_slots = [held.slot for held in keep]
        self._holders = [None] * slots
        used = min(max((len(held.ids) for held in keep), default=0), length)  # a context may be about to shrink
        self._reshape_cache(slots, length, kept_slots, used)
        for slot, held in enumerate([*keep, *([] if lane in keep else [lane])]):
            held.slot, self._holders[slot] = slot, held

    def _reshape_cache(self, slots: int, length: int, kept: Sequence[int] = (), used: int = 0) -> None:
        if self.recorder is not None:
            self.recorder.forget()  # first: a recording holds memory of its own
        self._cache.reshape(slots, length, kept, used)

    def _held(self) -> list[Lane]:
        return [lane for lane in self._holders if lane is not None]

    def _fits(self, lanes: Sequence[Lane]) -> bool:
        return self._bytes(len(lanes), _length(lanes)) <= self.memory_limit

    def _bytes(self, slots: int, length: int) -> int:
        return slots * length * self._cache.position_bytes


def _length(lanes: Sequence[Lane]) -> int:
    """Positions that a slot needs for these lanes, rounded up."""
    return -(-max(lane.reserved for lane in lanes) // STEP) * STEP


def _grown(present: int, needed: int, factor: float) -> int:
    """Grow by more than is needed, so that growing stays rare."""
    return present if needed <= present else max(needed, int(factor * present) // ALIGNED * ALIGNED)


def _spanned(feeds: Sequence[Feed]) -> list[Feed]:
    """Fill small gaps between the slots of rows that get one token each, with rows that get none."""
    slots = [feed.lane.slot for feed in feeds]
    span = range(min(slots), max(slots) + 1)
    if len(span) == len(feeds) or len(span) > GAPS * len(feeds) or any(len(feed.ids) > 1 for feed in feeds):
        return list(feeds)
    wanted = {feed.lane.slot: feed for feed in feeds}
    return [wanted.get(slot) or Feed(Lane(slot=slot), []) for slot in span]


def _picked(output: Output, feeds: Sequence[Feed], wanted: Sequence[Feed]) -> Output:
    """Return the output of the wanted rows, in their order."""
    row = {feed.lane.slot: index for index, feed in enumerate(feeds)}
    rows = torch.tensor([row[feed.lane.slot] for feed in wanted], device=output.logits.device)
    return Output(output.logits[rows], None if output.values is None else output.values[rows])
