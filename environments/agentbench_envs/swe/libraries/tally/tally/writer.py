"""From results to text."""

import csv
import io
import json
from collections.abc import Callable, Sequence

from tally.groups import Cell

Result = dict[str, Cell]

DIGITS = 4


def render(results: Sequence[Result], form: str = "table") -> str:
    """Write results as `table`, `csv` or `json`; the text ends with a newline unless it is empty."""
    if form not in FORMATS:
        raise ValueError(f"there is no format {form!r}; expected one of {', '.join(FORMATS)}")
    return FORMATS[form](results)


def _table(results: Sequence[Result]) -> str:
    if not results:
        return ""
    columns = list(results[0])
    texts = [[_text(row[column]) for column in columns] for row in results]
    widths = [max(len(column), *(len(row[i]) for row in texts)) for i, column in enumerate(columns)]
    right = [all(not isinstance(row[column], str) for row in results) for column in columns]
    lines = [columns, *texts]
    return "".join(_line(line, widths, right) + "\n" for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if flush else cell.ljust(width)
        for cell, width, flush in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:.{DIGITS}f}".rstrip("0").rstrip(".")
    return str(cell)


def _csv(results: Sequence[Result]) -> str:
    if not results:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(results[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({column: _text(cell) for column, cell in row.items()} for row in results)
    return text.getvalue()


def _json(results: Sequence[Result]) -> str:
    return json.dumps(list(results), indent=2) + "\n"


FORMATS: dict[str, Callable[[Sequence[Result]], str]] = {"table": _table, "csv": _csv, "json": _json}
