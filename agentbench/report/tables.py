"""Tables: the same rows as HTML that sorts, as Markdown, and as text on a terminal.

A cell is what a reader sees and what a column is sorted by; the functions below make cells of numbers. What is absent
is a dash and sorts last.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from agentbench.core.plain import plain

ROOM = 400
"""Characters that a cell shows."""


class Cell(NamedTuple):
    """One cell."""

    text: str
    key: float | None = None
    """What it is sorted by; None sorts by the text, or last among numbers."""


Value = Cell | str | int | None
"""What a row may hold: a cell, a text, a whole number, or nothing."""


class Table(NamedTuple):
    """Columns with names, and rows as long as they."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


def as_cell(value: Value) -> Cell:
    """Return a value as a cell."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return Cell(value)
    return Cell("–") if value is None else Cell(f"{value:,}".replace(",", "\N{THIN SPACE}"), value)


def is_numeric(column: Sequence[Cell]) -> bool:
    """Tell whether a column holds numbers, and nothing else but dashes."""
    return any(cell.key is not None for cell in column) and all(
        cell.key is not None or cell.text == "–" for cell in column
    )


def percent(value: float | None) -> Cell:
    """Return a rate as people read it."""
    return Cell("–") if value is None else Cell(f"{100 * value:.1f} %", value)


def number(value: float | None, digits: int = 2) -> Cell:
    """Return a number with so many digits behind the point."""
    if value is None or not math.isfinite(value):
        return Cell("–")
    return Cell(f"{value:.{digits}f}".replace("-", "−"), value)


def seconds(value: float | None) -> Cell:
    """Return a time in the unit that fits it."""
    if value is None:
        return Cell("–")
    size, unit = next((s, u) for s, u in ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.0, "ms")) if value >= s)
    return Cell(f"{value / (size or 0.001):.1f} {unit}", value)


def interval(mean: float | None, low: float | None, high: float | None, *, rate: bool = False) -> Cell:
    """Return a mean with its interval.

    Args:
        mean: None where there is nothing to say.
        low: Lower end; None or infinite where it is not known.
        high: Upper end.
        rate: Write per cent.
    """
    show = percent if rate else number
    if mean is None or low is None or high is None or not math.isfinite(low + high):
        return show(mean)
    ends = [show(end).text.removesuffix(" %") for end in (low, high)]
    return Cell(f"{show(mean).text} [{ends[0]}, {ends[1]}]", mean)


def shortened(text: str) -> str:
    """Return what a cell has room for, and how much is left out."""
    return text if len(text) <= ROOM else f"{text[:ROOM]}… ({len(text) - ROOM:,} more characters)"


def markdown(table: Table) -> str:
    """Return a table in Markdown; a cell's text can neither end the cell nor the line."""
    rows = [[as_cell(value) for value in row] for row in table.rows]
    numeric = [is_numeric([row[i] for row in rows]) for i in range(len(table.columns))]
    rule = ["---:" if right else "---" for right in numeric]
    lines = [[inline(name) for name in table.columns], rule, *([inline(cell.text) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]|#~"} | {"<": "&lt;", "&": "&amp;"})


def inline(text: str) -> str:
    """Return text as Markdown that shows it on one line, whatever is in it."""
    return shortened(" ".join(plain(text).split())).translate(_SPECIAL)
