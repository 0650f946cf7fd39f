"""Months and years, which differ in length."""

from datetime import date, timedelta

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year: int) -> bool:
    """Tell whether a year of the Gregorian calendar has a 29 February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """Return the number of days in a month (1 to 12)."""
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")
    return LENGTHS[month - 1] + (month == 2 and is_leap(year))


def add_months(day: date, months: int) -> date:
    """Return the same day of another month, or that month's last day if it is shorter."""
    count = day.year * 12 + day.month - 1 + months
    year, month = count // 12, count % 12 + 1
    return date(year, month, min(day.day, days_in_month(year, month)))


def nth_weekday(year: int, month: int, weekday: int, n: int) -> date:
    """Return the n-th given weekday (0 Monday) of a month; -1 is the last one.

    Raises:
        ValueError: The month has no such day.
    """
    if n == 0:
        raise ValueError("the first weekday has n = 1")
    if n > 0:
        first = date(year, month, 1)
        day = first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (n - 1))
    else:
        last = date(year, month, days_in_month(year, month))
        day = last - timedelta(days=(last.weekday() - weekday) % 7 + 7 * (-n - 1))
    if day.month != month:
        raise ValueError(f"{year}-{month:02} has no such weekday number {n}")
    return day
