"""Lengths of time in the notation of ISO 8601: P1Y2M3W4DT5H6M7S."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from workdays.months import add_months

_PATTERN = re.compile(
    r"(?P<sign>-)?P(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?"
)


@dataclass(frozen=True)
class Duration:
    """Months, days and seconds; they do not convert into each other."""

    months: int = 0
    days: int = 0
    seconds: int = 0

    def __neg__(self) -> "Duration":
        return Duration(-self.months, -self.days, -self.seconds)

    def __add__(self, other: "Duration") -> "Duration":
        return Duration(self.months + other.months, self.days + other.days, self.seconds + other.seconds)

    def after(self, moment: datetime) -> datetime:
        """Return the moment this much later: months first, then days and seconds."""
        day = add_months(moment.date(), self.months)
        return datetime.combine(day, moment.time()) + timedelta(days=self.days, seconds=self.seconds)

    def __str__(self) -> str:
        parts = [self.months, self.days, self.seconds]
        if not any(parts):
            return "PT0S"
        if all(part <= 0 for part in parts):
            return "-" + str(-self)
        if any(part < 0 for part in parts):
            raise ValueError("a duration with parts of both signs cannot be written")
        return "P" + _date_text(self.months, self.days) + _time_text(self.seconds)


def parse_duration(text: str) -> Duration:
    """Read a duration; a leading minus turns all of it around.

    Raises:
        ValueError: The text is no duration.
    """
    found = _PATTERN.fullmatch(text.strip())
    if not found or text.strip().endswith(("P", "T")):
        raise ValueError(f"{text!r} is no duration")
    number = {name: int(value or 0) for name, value in found.groupdict().items() if name != "sign"}
    duration = Duration(
        12 * number["years"] + number["months"],
        7 * number["weeks"] + number["days"],
        3600 * number["hours"] + 60 * number["minutes"] + number["seconds"],
    )
    return -duration if found["sign"] else duration


def _date_text(months: int, days: int) -> str:
    years, months = divmod(months, 12)
    return "".join(f"{count}{letter}" for count, letter in ((years, "Y"), (months, "M"), (days, "D")) if count)


def _time_text(seconds: int) -> str:
    if not seconds:
        return ""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    return "T" + "".join(f"{count}{letter}" for count, letter in parts if count)
