"""A map from points to values that is constant on spans."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from spans.ranges import SpanSet


class SpanMap:
    """Values on spans; a later assignment covers an earlier one. Neighbours of equal value are joined."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._stops: list[float] = []
        self._values: list[Any] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[float, float, Any]]:
        return iter(zip(self._starts, self._stops, self._values, strict=True))

    def __setitem__(self, span: slice, value: Any) -> None:
        start, stop = _ends(span)
        if start == stop:
            return
        self._clear(start, stop)
        at = bisect_right(self._starts, start)
        if at < len(self) and self._starts[at] == stop and self._values[at] == value:
            stop = self._stops[at]
            self._drop(at)
        if at > 0 and self._stops[at - 1] == start and self._values[at - 1] == value:
            at -= 1
            start = self._starts[at]
            self._drop(at)
        self._insert(at, start, stop, value)

    def __delitem__(self, span: slice) -> None:
        self._clear(*_ends(span))

    def __getitem__(self, point: float) -> Any:
        at = bisect_right(self._starts, point) - 1
        if at < 0 or point >= self._stops[at]:
            raise KeyError(point)
        return self._values[at]

    def get(self, point: float, default: Any = None) -> Any:
        """Return the value at a point, or the default where there is none."""
        try:
            return self[point]
        except KeyError:
            return default

    def where(self, value: Any) -> SpanSet:
        """Return the points that have this value."""
        return SpanSet((start, stop) for start, stop, there in self if there == value)

    def domain(self) -> SpanSet:
        """Return the points that have any value."""
        return SpanSet((start, stop) for start, stop, _ in self)

    def totals(self) -> dict[Any, float]:
        """Return how much each value covers."""
        totals: dict[Any, float] = {}
        for start, stop, value in self:
            totals[value] = totals.get(value, 0) + stop - start
        return totals

    def _clear(self, start: float, stop: float) -> None:
        """Remove what lies in a span, cutting what reaches over its ends."""
        kept = []
        for left, right, value in self:
            if right <= start or left >= stop:
                kept.append((left, right, value))
                continue
            if left < start:
                kept.append((left, start, value))
            if right > stop:
                kept.append((stop, right, value))
        self._starts = [row[0] for row in kept]
        self._stops = [row[1] for row in kept]
        self._values = [row[2] for row in kept]

    def _insert(self, at: int, start: float, stop: float, value: Any) -> None:
        self._starts.insert(at, start)
        self._stops.insert(at, stop)
        self._values.insert(at, value)

    def _drop(self, at: int) -> None:
        del self._starts[at], self._stops[at], self._values[at]


def _ends(span: slice) -> tuple[float, float]:
    if not isinstance(span, slice) or span.step is not None:
        raise TypeError("a span is written start:stop")
    if span.start is None or span.stop is None:
        raise ValueError("a span needs both ends")
    if span.stop < span.start:
        raise ValueError(f"the span ({span.start}, {span.stop}) stops before it starts")
    return span.start, span.stop
