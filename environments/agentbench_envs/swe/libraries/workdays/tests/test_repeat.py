from datetime import date
from itertools import islice

import pytest

from workdays import Calendar, fixed, floating, repeat

START = date(2024, 1, 31)


def test_dates_repeat_by_days_and_weeks():
    assert list(repeat(START, "day", times=3)) == [date(2024, 1, 31), date(2024, 2, 1), date(2024, 2, 2)]
    assert list(repeat(START, "week", 2, times=2)) == [date(2024, 1, 31), date(2024, 2, 14)]


def test_the_31st_comes_back_after_a_short_month():
    assert list(repeat(START, "month", times=3)) == [date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31)]


def test_the_29th_of_february_repeats_by_years():
    leap = date(2024, 2, 29)
    assert list(repeat(leap, "year", times=2)) == [leap, date(2025, 2, 28)]
    assert list(repeat(leap, "year", 4, times=2)) == [leap, date(2028, 2, 29)]


def test_the_last_date_may_be_until():
    assert list(repeat(START, "day", until=date(2024, 2, 1))) == [date(2024, 1, 31), date(2024, 2, 1)]
    assert list(repeat(START, "week", until=date(2024, 2, 6))) == [date(2024, 1, 31)]


def test_a_repetition_goes_on_until_it_is_told_to_end():
    assert len(list(islice(repeat(START, "day"), 1000))) == 1000
    assert list(repeat(START, "day", times=0)) == []


def test_a_calendar_moves_repeated_dates_to_working_days():
    calendar = Calendar([floating(2, 3, -1)])
    assert list(repeat(START, "month", times=3, calendar=calendar)) == [
        date(2024, 1, 31),
        date(2024, 3, 1),
        date(2024, 4, 1),
    ]


def test_dates_repeat_by_working_days():
    assert list(repeat(date(2024, 2, 1), "workday", times=3)) == [
        date(2024, 2, 1),
        date(2024, 2, 2),
        date(2024, 2, 5),
    ]
    calendar = Calendar([fixed(2, 2)])
    assert list(repeat(date(2024, 2, 1), "workday", times=2, calendar=calendar))[1] == date(2024, 2, 5)


@pytest.mark.parametrize(("unit", "every"), [("hour", 1), ("day", 0), ("day", -1)])
def test_an_unknown_unit_or_a_step_below_one_is_refused(unit, every):
    with pytest.raises(ValueError):
        next(repeat(START, unit, every))
