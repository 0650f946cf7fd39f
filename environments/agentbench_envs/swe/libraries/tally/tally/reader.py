"""From a file to rows."""

import csv
from collections.abc import Iterable, Iterator

Row = dict[str, str]

DELIMITERS = ",;\t|"


class DataError(ValueError):
    """A file does not hold what it should; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


def read(lines: Iterable[str], delimiter: str | None = None) -> Iterator[Row]:
    """Yield the rows of a CSV file whose first line names the columns; blank lines are skipped.

    Args:
        lines: The text.
        delimiter: What separates columns; None finds out from the first line.

    Raises:
        DataError: There is no header, a name stands twice, or a row is too long or too short.
    """
    lines = iter(lines)
    first = next(lines, "")
    if not first.strip():
        raise DataError("the file has no header", 1)
    delimiter = delimiter or guess(first)
    header = [name.strip() for name in next(csv.reader([first.lstrip("\ufeff")], delimiter=delimiter))]
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise DataError(f"the column {min(repeated)!r} stands twice", 1)
    reader = csv.reader(lines, delimiter=delimiter)
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise DataError(f"found {len(cells)} cells, expected {len(header)}", reader.line_num + 1)
        yield {name: cell.strip() for name, cell in zip(header, cells, strict=True)}


def guess(header: str) -> str:
    """Return the delimiter that a header uses most; a comma if none."""
    counts = {delimiter: header.count(delimiter) for delimiter in DELIMITERS}
    best = max(counts, key=lambda delimiter: counts[delimiter])
    return best if counts[best] else ","


def number(text: str) -> int | float | None:
    """Read a number, with commas between thousands or a percent sign; None if it is none."""
    text = text.replace(",", "")
    percent = text.endswith("%")
    text = text.removesuffix("%")
    try:
        value = float(text)
    except ValueError:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        return None
    if percent:
        return value / 100
    return int(value) if value.is_integer() and "." not in text and "e" not in text.lower() else value
