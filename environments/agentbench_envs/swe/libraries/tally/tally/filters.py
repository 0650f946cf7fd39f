"""Conditions on rows."""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from tally.reader import DataError, Row, number

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "~": lambda cell, wanted: str(wanted).lower() in str(cell).lower(),
}
"""The longer signs come first, so that they are found first."""


class Filter(NamedTuple):
    """A condition on one column."""

    column: str
    sign: str
    wanted: str

    def keeps(self, row: Row) -> bool:
        """Tell whether a row fulfils the condition; numbers are compared as numbers if both sides are."""
        if self.column not in row:
            raise DataError(f"there is no column {self.column!r}")
        cell = row[self.column]
        compare = COMPARISONS[self.sign]
        left, right = number(cell), number(self.wanted)
        if self.sign != "~" and left is not None and right is not None:
            return compare(left, right)
        return compare(cell, self.wanted)


def parse_filter(text: str) -> Filter:
    """Read a condition such as `amount>=10`.

    Raises:
        ValueError: It has no sign, or no column.
    """
    places = [(text.find(sign), -len(sign), sign) for sign in COMPARISONS if sign in text]
    if not places:
        raise ValueError(f"{text!r} has none of the signs {' '.join(COMPARISONS)}")
    at, _, sign = min(places)
    column = text[:at].strip()
    if not column:
        raise ValueError(f"{text!r} names no column")
    return Filter(column, sign, text[at + len(sign) :].strip())
