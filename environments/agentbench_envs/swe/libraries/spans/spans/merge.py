"""Lists of spans in normal form: sorted, none empty, none touching the next."""

from collections.abc import Callable, Iterable

Span = tuple[float, float]


def normalise(spans: Iterable[Span]) -> list[Span]:
    """Return the same points as few spans, in order.

    Raises:
        ValueError: A span stops before it starts.
    """
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if stop < start:
            raise ValueError(f"the span ({start}, {stop}) stops before it starts")
        if start == stop:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def combine(left: list[Span], right: list[Span], keep: Callable[[bool, bool], bool]) -> list[Span]:
    """Sweep over two lists in normal form, and keep the points where `keep(in left, in right)` holds."""
    edges = sorted({edge for span in (*left, *right) for edge in span})
    found = []
    for start, stop in zip(edges, edges[1:], strict=False):
        if keep(covers(left, start), covers(right, start)):
            found.append((start, stop))
    return normalise(found)


def covers(spans: list[Span], point: float) -> bool:
    """Tell whether a point lies in a list in normal form, by bisection."""
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        if spans[middle][0] <= point:
            low = middle + 1
        else:
            high = middle
    return low > 0 and point < spans[low - 1][1]
