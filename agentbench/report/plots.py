"""The two plots of a leaderboard: scores with their intervals, and scores over what they cost.

Written by hand, not by a plotting library, because the files stand in the repository: the same rows must give the same
bytes with every version of every library. Their colours are the page's.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from agentbench.core.plain import plain

WIDTH, LEFT, RIGHT, LINE, TOP, BOTTOM = 460, 190, 24, 27, 12, 44
"""Pixels of the drawing: its width, what names and margins take, the height of a row, and what axis and title take."""
HEIGHT, MARGIN = 262, 76
"""Pixels of the plot of costs: its height, and the room for its y axis."""
APART = 15
"""Pixels between the base lines of two labels."""
STYLE = "font:13px system-ui,sans-serif"


class Point(NamedTuple):
    """One policy."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    strong: bool = True
    """False draws it as a mark of the scale: grey and hollow."""
    cost: float = 0.0


def forest(points: Sequence[Point], *, unit: str, rate: bool) -> str:
    """Draw one row per policy, the first on top: its score as a point, its interval as a line.

    Args:
        points: At least one.
        unit: What the axis measures.
        rate: The axis runs from 0 to 1 and is written in per cent.

    Returns:
        An `<svg>` element for `report.page.figure`.
    """
    height = TOP + LINE * len(points) + BOTTOM
    ends = [end for point in points for end in (point.value, point.low, point.high) if end is not None]
    axis = _Axis(0.0, 1.0, LEFT, WIDTH - RIGHT, "rate") if rate else _Axis.over(ends, LEFT, WIDTH - RIGHT, "score")
    rows = [_row(point, TOP + LINE * (number + 0.5), axis) for number, point in enumerate(points)]
    return _svg(height, _bottom_axis(axis, height, unit) + "".join(rows))


def scatter(points: Sequence[Point], *, unit: str, cost: str, rate: bool) -> str:
    """Draw scores over costs: what is further up and further left is better.

    Args:
        points: At least one.
        unit: What the y axis measures.
        cost: What the x axis measures.
        rate: The y axis is written in per cent.

    Returns:
        An `<svg>` element for `report.page.figure`.
    """
    x = _Axis.over([point.cost for point in points], MARGIN, WIDTH - RIGHT, "cost")
    y = _Axis.over([point.value for point in points], HEIGHT - BOTTOM, TOP + 10, "rate" if rate else "score")
    parts = [_bottom_axis(x, HEIGHT, cost)]
    for value in y.ticks():
        level = f"{y.place(value):.1f}"
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - RIGHT}" y1="{level}" y2="{level}" stroke="var(--grid)"/>')
        parts.append(_text(MARGIN - 10, y.place(value) + 5, y.write(value), "end", "muted"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turn = f'transform="rotate(-90 14 {middle:g})"'
    parts.append(_text(14, middle, unit, "middle", "ink", turn))
    line = 0.0
    for point in sorted(points, key=lambda point: -point.value):
        across, down = x.place(point.cost), y.place(point.value)
        line = max(down + 5, line + APART)  # labels of neighbours stand below each other
        side, anchor = (11, "start") if across < (x.start + x.end) / 2 else (-11, "end")
        parts.append(_dot(across, down, "var(--series-0)", "var(--series-0)"))
        parts.append(_text(across + side, line, _short(point.label), anchor, "ink"))
    return _svg(HEIGHT, "".join(parts))


class _Axis(NamedTuple):
    low: float
    high: float
    start: float
    end: float
    """Pixels."""
    kind: str
    """`rate`, `score` or `cost`: how values are written."""

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, kind: str) -> "_Axis":
        """An axis on which all values have room."""
        margin = 0.15 * (max(values) - min(values)) or 0.1 * abs(values[0]) or 1.0
        return cls(min(values) - margin, max(values) + margin, start, end, kind)

    def place(self, value: float) -> float:
        """The coordinate of a value."""
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def step(self) -> float:
        """The distance of two marks: 1, 2 or 5 times a power of ten, so that there are three to six of them."""
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / 3))
        return next(power * size for size in (5, 2, 1) if power * size * 3 <= (self.high - self.low) * (1 + 1e-9))

    def ticks(self) -> list[float]:
        """Values to mark."""
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [self.step * number for number in range(first, last + 1)]

    def write(self, value: float) -> str:
        """A value as the axis shows it, with as many digits as its steps need."""
        scale, unit = (100, " %") if self.kind == "rate" else (1, "")
        digits = max(0, -math.floor(math.log10(scale * self.step) + 1e-9))
        return f"{scale * value:.{digits}f}{unit}".replace("-", "−")


def _row(point: Point, y: float, axis: _Axis) -> str:
    colour, fill = ("var(--series-0)", "var(--series-0)") if point.strong else ("var(--muted)", "var(--paper, none)")
    parts = [_text(LEFT - 14, y + 5, _short(point.label), "end", "ink")]
    if point.low is not None and point.high is not None:
        ends = f'x1="{axis.place(point.low):.1f}" x2="{axis.place(point.high):.1f}" y1="{y:g}" y2="{y:g}"'
        parts.append(f'<line {ends} stroke="{colour}" stroke-width="2"/>')
    return "".join([*parts, _dot(axis.place(point.value), y, colour, fill)])


def _bottom_axis(axis: _Axis, height: int, unit: str) -> str:
    bottom = height - BOTTOM
    parts = []
    for value in axis.ticks():
        x = axis.place(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="var(--grid)"/>')
        parts.append(_text(x, bottom + 18, axis.write(value), "middle", "muted"))
    return "".join(parts) + _text((axis.start + axis.end) / 2, height - 6, unit, "middle", "ink")


def _dot(x: float, y: float, colour: str, fill: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" stroke="{colour}" stroke-width="2" fill="{fill}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--{colour})" {more}'.rstrip()
    return f"<text {place}>{escape(plain(text))}</text>"


def _short(label: str, limit: int = 24) -> str:
    """Cut a long label in its middle: what tells it from others is often at its end."""
    half = limit // 2
    return label if len(label) <= limit else f"{label[: limit - half - 1]}…{label[-half:]}"


def _svg(height: int, inner: str) -> str:
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" style="{STYLE}">{inner}</svg>'
