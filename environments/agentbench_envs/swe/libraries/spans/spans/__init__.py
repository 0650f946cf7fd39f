"""Sets of half-open intervals, and maps from intervals to values."""

from spans.mapping import SpanMap
from spans.merge import normalise
from spans.ranges import SpanSet

__all__ = ["SpanMap", "SpanSet", "normalise"]
