"""Calendar arithmetic."""

from workdays.calendar import Calendar
from workdays.duration import Duration, parse_duration
from workdays.months import add_months, days_in_month, is_leap, nth_weekday
from workdays.repeat import repeat
from workdays.rules import easter, fixed, floating, observed, relative_to_easter

__all__ = [
    "Calendar",
    "Duration",
    "add_months",
    "days_in_month",
    "easter",
    "fixed",
    "floating",
    "is_leap",
    "nth_weekday",
    "observed",
    "parse_duration",
    "relative_to_easter",
    "repeat",
]
