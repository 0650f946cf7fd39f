"""Keys and values of many live conversations, in one arena.

Every conversation owns a *slot*: one row of the arena, in which position p of its context lies at index p, always. A
forward pass may therefore mix rows of any age and length: each row writes where it stands, and sees what lies before.
New tokens are aligned at the right, so that the last column holds the last token of every row; what pads them at the
left is written to one spare position behind the arena and is never read. What lies behind a row's end is old, finite
and masked.

The arena is allocated once and grows in steps, both in slots and in length. Its layers point at a `Plan`, never back at
the cache: a cycle would keep hundreds of megabytes alive until the garbage collector comes by.
"""

import contextlib
import ctypes
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

ALIGNED = 8
"""Passes look at a multiple of so many positions, for attention kernels want their mask aligned."""


class LayerShape(NamedTuple):
    """What one layer keeps of one position."""

    heads: int
    key_width: int
    value_width: int
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """Bytes of one position."""
        return self.heads * (self.key_width + self.value_width) * self.dtype.itemsize


@dataclass
class Plan:
    """Where the rows of the present forward pass read and write. One object, shared by all layers."""

    slots: int = 0
    """Rows of the arena."""
    length: int = 0
    """Positions of a row of the arena."""
    seen: int = 0
    """Positions that the present pass looks at: the longest row's."""
    width: int = 0
    """New tokens per row, padding included."""
    write: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """Where the new tokens go, row by row, as indices of the flattened arena."""
    rows: Tensor | slice = field(default_factory=lambda: slice(0))
    """The slots of the pass; a slice, and no copy, where they stand side by side."""


class SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer of the arena: keys and values of shape [slots * length + 1, heads, width]."""

    is_sliding = False
    keys: Tensor
    values: Tensor

    def __init__(self, shape: LayerShape, plan: Plan, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shape = shape
        self.plan = plan
        self.device = device
        self.keys, self.values = self._empty(1, shape.key_width), self._empty(1, shape.value_width)
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the arena knows its shapes."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Store the new keys and values; return those of all positions that the pass looks at.

        Args:
            key_states: Shape [rows, heads, new tokens, key width].
            value_states: Shape [rows, heads, new tokens, value width].
            *args: Ignored.
            **kwargs: Ignored.
        """
        return self._exchange(self.keys, key_states), self._exchange(self.values, value_states)

    def _exchange(self, arena: Tensor, new: Tensor) -> Tensor:
        plan = self.plan
        arena.index_copy_(0, plan.write, new.transpose(1, 2).reshape(-1, *arena.shape[1:]))
        slots = arena[: plan.slots * plan.length].view(plan.slots, plan.length, *arena.shape[1:])
        if isinstance(plan.rows, slice):
            return slots[plan.rows, : plan.seen].transpose(1, 2)
        return slots[:, : plan.seen].index_select(0, plan.rows).transpose(1, 2)

    def reshape(self, old: tuple[int, int], new: tuple[int, int], kept: Sequence[int], used: int) -> None:
        """Move to an arena of another shape (slots, length); slot `kept[i]` becomes slot i, up to position `used`."""
        self.keys = self._moved(self.keys, self.shape.key_width, old, new, kept, used)
        self.values = self._moved(self.values, self.shape.value_width, old, new, kept, used)

    def _moved(
        self, arena: Tensor, width: int, old: tuple[int, int], new: tuple[int, int], kept: Sequence[int], used: int
    ) -> Tensor:
        fresh = self._empty(new[0] * new[1] + 1, width)
        if used:
            source = arena[: old[0] * old[1]].view(*old, *arena.shape[1:])
            target = fresh[: new[0] * new[1]].view(*new, *arena.shape[1:])
            target[: len(kept), :used] = source[side_by_side(kept, self.device), :used]
        return fresh

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many positions the pass looks at, and the first of them."""
        return self.plan.seen, 0

    def get_seq_length(self) -> int:
        """Return the positions before this pass, of the longest row."""
        return max(self.plan.seen - self.plan.width, 0)

    def get_max_length(self) -> int:
        """Return the positions of a slot."""
        return self.plan.length

    def _empty(self, positions: int, width: int) -> Tensor:
        return zeros((positions, self.shape.heads, width), self.shape.dtype, self.device)


class SlotCache(Cache):
    """The arena, as a cache that transformers models read and write.

    Args:
        shapes: What each layer keeps.
        device: Where the model is.
    """

    def __init__(self, shapes: Sequence[LayerShape], device: torch.device) -> None:
        self.plan = Plan()
        self.device = device
        self.position_bytes = sum(shape.bytes for shape in shapes)
        self.arena = [SlotLayer(shape, self.plan, device) for shape in shapes]
        super().__init__(layers=list(self.arena))

    def reshape(self, slots: int, length: int, kept: Sequence[int] = (), used: int = 0) -> None:
        """Make the arena `slots` by `length`; slot `kept[i]` becomes slot i, all else is forgotten.

        Args:
            slots: Rows of the new arena.
            length: Positions of a row.
            kept: Slots that move, in their new order.
            used: Positions of these that are in use.
        """
        old = (self.plan.slots, self.plan.length)
        self.plan.slots, self.plan.length = slots, length
        for layer in self.arena:
            layer.reshape(old, (slots, length), kept, used)

    def open(self, slots: Sequence[int], starts: Sequence[int], counts: Sequence[int]) -> Tensor:
        """Prepare a forward pass in which row i appends `counts[i]` tokens to slot `slots[i]` at position `starts[i]`.

        Returns:
            The positions of the new tokens, shape [rows, widest]; padding stands at position 0.
        """
        plan = self.plan
        plan.width = max(counts)
        seen = max(start + count for start, count in zip(starts, counts, strict=True))
        plan.seen = min(-(-seen // ALIGNED) * ALIGNED, plan.length)
        plan.rows = side_by_side(slots, self.device)
        first = torch.tensor([s + c - plan.width for s, c in zip(starts, counts, strict=True)], device=self.device)
        positions = first[:, None] + torch.arange(plan.width, device=self.device)
        offset = torch.tensor(slots, device=self.device)[:, None] * plan.length
        if min(counts) == plan.width:
            plan.write = (positions + offset).flatten()
            return positions
        real = positions >= torch.tensor(starts, device=self.device)[:, None]
        plan.write = torch.where(real, positions + offset, plan.slots * plan.length).flatten()
        return positions.where(real, 0)


def side_by_side(slots: Sequence[int], device: torch.device) -> Tensor | slice:
    """Return an index of these rows of the arena: a slice, which copies nothing, where they are neighbours."""
    if slots and list(slots) == list(range(slots[0], slots[0] + len(slots))):
        return slice(slots[0], slots[0] + len(slots))
    return torch.tensor(slots, dtype=torch.long, device=device)


def zeros(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros, for what is masked is still multiplied by 0, and 0 * nan is nan.

    On a CPU they are pages that the system makes when they are first written and takes back at once when the tensor is
    dropped: room to grow costs nothing, and no allocator keeps what an outgrown arena has left.
    """
    count = math.prod(shape)
    if device.type != "cpu" or not count:
        return torch.zeros(shape, dtype=dtype, device=device)
    pages = mmap.mmap(-1, count * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=dtype).view(shape)


def trim_heap() -> None:
    """Hand what was freed back to the system where the C library is glibc, which else keeps it for later."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
