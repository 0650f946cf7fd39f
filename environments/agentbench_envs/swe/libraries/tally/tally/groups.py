"""Rows that belong together, and one number for each group."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tally.reader import DataError, Row, number

Value = int | float
Cell = str | int | float


def _mean(values: Sequence[Value]) -> Value:
    return sum(values) / len(values)


KINDS: dict[str, Callable[[Sequence[Value]], Value]] = {"sum": sum, "mean": _mean, "min": min, "max": max}


class Aggregate(NamedTuple):
    """What is computed: a kind (`count`, `sum`, `mean`, `min`, `max`) of a column."""

    kind: str
    column: str

    @property
    def name(self) -> str:
        """The column of the result."""
        return f"{self.column}_{self.kind}"


def summarise(rows: Iterable[Row], by: Sequence[str], aggregates: Sequence[Aggregate]) -> list[dict[str, Cell]]:
    """Group rows, and compute every aggregate of every group; groups come in the order of their first row.

    Empty cells do not count. A group with no value at all gets an empty text, except for sums and counts. Without
    aggregates the rows of each group are counted.

    Raises:
        DataError: A column is missing, or a cell is no number.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(_cell(row, column) for column in by)
        groups.setdefault(key, []).append(row)
    if not by and not groups:
        groups[()] = []
    results = []
    for key, members in groups.items():
        result: dict[str, Cell] = dict(zip(by, key, strict=True))
        for aggregate in aggregates:
            result[aggregate.name] = _compute(aggregate, members)
        if not aggregates:
            result["count"] = len(members)
        results.append(result)
    return results


def order(
    results: list[dict[str, Cell]], column: str | None, descending: bool = False, limit: int | None = None
) -> list[dict[str, Cell]]:
    """Sort results by a column, numbers before texts, and keep the first ones."""
    if column is not None:
        if results and column not in results[0]:
            raise DataError(f"cannot sort by {column!r}; there are {', '.join(results[0])}")
        results = sorted(results, key=lambda row: _rank(row[column]), reverse=descending)
    return results if limit is None else results[:limit]


def _rank(cell: Cell) -> tuple[bool, Value, str]:
    value = number(cell) if isinstance(cell, str) else cell
    return (True, 0, str(cell)) if value is None else (False, value, "")


def _cell(row: Row, column: str) -> str:
    if column not in row:
        raise DataError(f"there is no column {column!r}")
    return row[column]


def _compute(aggregate: Aggregate, rows: Sequence[Row]) -> Cell:
    cells = [cell for cell in (_cell(row, aggregate.column) for row in rows) if cell]
    if aggregate.kind == "count":
        return len(cells)
    values = []
    for cell in cells:
        value = number(cell)
        if value is None:
            raise DataError(f"{cell!r} in column {aggregate.column!r} is no number")
        values.append(value)
    if not values and aggregate.kind != "sum":
        return ""
    return KINDS[aggregate.kind](values)
