"""Which days are worked, and arithmetic on them."""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta

from workdays.rules import SATURDAY, SUNDAY, Rule

DAY = timedelta(days=1)


class Calendar:
    """A weekend and holidays."""

    def __init__(self, holidays: Iterable[Rule] = (), weekend: Iterable[int] = (SATURDAY, SUNDAY)) -> None:
        self._rules = tuple(holidays)
        self._weekend = frozenset(weekend)
        if len(self._weekend) > 6:
            raise ValueError("a week needs a day that is worked")
        self._years: dict[int, frozenset[date]] = {}

    def holidays(self, year: int) -> frozenset[date]:
        """Return the holidays that fall into a year, also those that its neighbours' rules move there."""
        if year not in self._years:
            days = (rule(near) for rule in self._rules for near in (year - 1, year, year + 1))
            self._years[year] = frozenset(day for day in days if day.year == year)
        return self._years[year]

    def works(self, day: date) -> bool:
        """Tell whether a day is worked."""
        return day.weekday() not in self._weekend and day not in self.holidays(day.year)

    def add(self, day: date, days: int) -> date:
        """Go so many working days forward, or back; 0 gives the day itself, or the next that is worked."""
        if days == 0:
            return self.following(day)
        way = DAY if days > 0 else -DAY
        left = abs(days)
        while left:
            day += way
            left -= self.works(day)
        return day

    def following(self, day: date) -> date:
        """Return the day if it is worked, else the next that is."""
        while not self.works(day):
            day += DAY
        return day

    def preceding(self, day: date) -> date:
        """Return the day if it is worked, else the last before it that is."""
        while not self.works(day):
            day -= DAY
        return day

    def modified_following(self, day: date) -> date:
        """Return the following working day, or the preceding one if that lies in another month."""
        after = self.following(day)
        return after if after.month == day.month else self.preceding(day)

    def between(self, start: date, stop: date) -> int:
        """Count the working days from `start` up to, not including, `stop`; negative if `stop` is earlier."""
        if stop < start:
            return -self.between(stop, start)
        return sum(self.works(day) for day in days(start, stop))


def days(start: date, stop: date) -> Iterator[date]:
    """Yield the days from `start` up to, not including, `stop`."""
    while start < stop:
        yield start
        start += DAY
