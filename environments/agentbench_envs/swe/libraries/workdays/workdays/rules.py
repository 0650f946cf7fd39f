"""Holidays as rules: functions from a year to a date."""

from collections.abc import Callable
from datetime import date, timedelta

from workdays.months import nth_weekday

Rule = Callable[[int], date]

SATURDAY, SUNDAY = 5, 6


def easter(year: int) -> date:
    """Return Easter Sunday of the Gregorian calendar (the anonymous algorithm, after Meeus)."""
    century = year // 100
    golden = year % 19
    correction = century - century // 4 - (8 * century + 13) // 25
    moon = (19 * golden + correction + 15) % 30
    moon -= (moon // 28) * (1 - (29 // (moon + 1)) * ((21 - golden) // 11))
    weekday = (year + year // 4 + moon + 2 - century + century // 4) % 7
    offset = moon - weekday
    month = 3 + (offset + 40) // 44
    day = offset + 28 - 31 * (month // 4)
    return date(year, month, day)


def fixed(month: int, day: int) -> Rule:
    """Return the rule of a holiday that has the same date every year."""
    return lambda year: date(year, month, day)


def floating(month: int, weekday: int, n: int) -> Rule:
    """Return the rule of a holiday on the n-th weekday of a month."""
    return lambda year: nth_weekday(year, month, weekday, n)


def relative_to_easter(days: int) -> Rule:
    """Return the rule of a holiday so many days after Easter Sunday."""
    return lambda year: easter(year) + timedelta(days=days)


def observed(rule: Rule) -> Rule:
    """Move a holiday from Saturday to Friday, and from Sunday to Monday."""

    def moved(year: int) -> date:
        day = rule(year)
        if day.weekday() == SATURDAY:
            return day - timedelta(days=1)
        if day.weekday() == SUNDAY:
            return day + timedelta(days=1)
        return day

    return moved
