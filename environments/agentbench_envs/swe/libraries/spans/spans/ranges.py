"""A set of points, kept as spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spans.merge import Span, combine, covers, normalise


class SpanSet:
    """An immutable set of points that is a union of half-open spans."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans = normalise(spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, point: float) -> bool:
        return covers(self._spans, point)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpanSet):
            return NotImplemented
        return self._spans == other._spans

    def __hash__(self) -> int:
        return hash(tuple(self._spans))

    def __repr__(self) -> str:
        return f"SpanSet({self._spans})"

    def __or__(self, other: SpanSet) -> SpanSet:
        return SpanSet([*self, *other])

    def __and__(self, other: SpanSet) -> SpanSet:
        return SpanSet(combine(self._spans, other._spans, lambda here, there: here and there))

    def __sub__(self, other: SpanSet) -> SpanSet:
        return SpanSet(combine(self._spans, other._spans, lambda here, there: here and not there))

    def __xor__(self, other: SpanSet) -> SpanSet:
        return SpanSet(combine(self._spans, other._spans, lambda here, there: here != there))

    def __le__(self, other: SpanSet) -> bool:
        return len(self - other) == 0

    def __lt__(self, other: SpanSet) -> bool:
        return self <= other and self != other

    @property
    def size(self) -> float:
        """The total length."""
        return sum(stop - start for start, stop in self._spans)

    @property
    def hull(self) -> Span | None:
        """The smallest span around everything; None if there is nothing."""
        if not self._spans:
            return None
        return self._spans[0][0], self._spans[-1][1]

    def gaps(self) -> SpanSet:
        """Return what lies between the spans."""
        return SpanSet(
            (before[1], after[0]) for before, after in zip(self._spans, self._spans[1:], strict=False)
        )

    def isdisjoint(self, other: SpanSet) -> bool:
        """Tell whether no point lies in both."""
        return not self & other

    def shift(self, distance: float) -> SpanSet:
        """Move every span."""
        return SpanSet((start + distance, stop + distance) for start, stop in self)

    def grow(self, margin: float) -> SpanSet:
        """Move both ends of every span outward; a negative margin shrinks, and drops what vanishes."""
        grown = ((start - margin, stop + margin) for start, stop in self)
        return SpanSet(span for span in grown if span[0] < span[1])

    def at_least(self, length: float) -> SpanSet:
        """Keep the spans that are this long or longer."""
        return SpanSet(span for span in self if span[1] - span[0] >= length)

    def first_fit(self, length: float, after: float = float("-inf")) -> Span | None:
        """Return the earliest span of this length that lies inside and starts at `after` or later."""
        for start, stop in self:
            begin = max(start, after)
            if stop - begin >= length:
                return begin, begin + length
        return None
