"""Dates that come again."""

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import count, islice

from workdays.calendar import Calendar
from workdays.months import add_months

UNITS = ("day", "week", "month", "year", "workday")


def repeat(
    start: date,
    unit: str,
    every: int = 1,
    times: int | None = None,
    until: date | None = None,
    calendar: Calendar | None = None,
) -> Iterator[date]:
    """Yield a date again and again.

    Months and years count from `start`, so that the 31st comes back after a short month. With a calendar, dates that
    are not worked move to the next day that is; `until` looks at the date that results, and includes it.

    Raises:
        ValueError: The unit is unknown, or the dates would never move.
    """
    if unit not in UNITS:
        raise ValueError(f"there is no unit {unit!r}; expected one of {', '.join(UNITS)}")
    if every < 1:
        raise ValueError("every must be at least 1")
    dates = _dates(start, unit, every, calendar or Calendar())
    if calendar is not None:
        dates = (calendar.following(day) for day in dates)
    if times is not None:
        dates = islice(dates, times)
    for day in dates:
        if until is not None and day > until:
            return
        yield day


def _dates(start: date, unit: str, every: int, calendar: Calendar) -> Iterator[date]:
    for number in count(0, every):
        if unit == "day":
            yield start + timedelta(days=number)
        elif unit == "week":
            yield start + timedelta(weeks=number)
        elif unit == "workday":
            yield calendar.add(start, number)
        else:
            yield add_months(start, number * (12 if unit == "year" else 1))
