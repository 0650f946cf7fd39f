from datetime import date

import pytest

from workdays import Calendar, fixed, observed, relative_to_easter

PLAIN = Calendar()
WITH_HOLIDAYS = Calendar([fixed(12, 25), fixed(12, 26), observed(fixed(1, 1)), relative_to_easter(1)])
FRIDAY, SATURDAY, SUNDAY, MONDAY = (date(2024, 5, day) for day in (3, 4, 5, 6))


def test_weekends_are_not_worked():
    assert PLAIN.works(FRIDAY)
    assert not PLAIN.works(SATURDAY)
    assert not PLAIN.works(SUNDAY)


def test_holidays_are_not_worked():
    assert not WITH_HOLIDAYS.works(date(2024, 12, 25))
    assert not WITH_HOLIDAYS.works(date(2024, 4, 1))
    assert WITH_HOLIDAYS.works(date(2024, 12, 24))


def test_a_holiday_can_move_into_the_year_before():
    assert date(2021, 12, 31) in WITH_HOLIDAYS.holidays(2021)
    assert not WITH_HOLIDAYS.works(date(2021, 12, 31))


def test_a_week_needs_a_working_day():
    with pytest.raises(ValueError, match="worked"):
        Calendar(weekend=range(7))


def test_a_calendar_may_have_another_weekend():
    gulf = Calendar(weekend=[4, 5])
    assert not gulf.works(FRIDAY)
    assert gulf.works(SUNDAY)


@pytest.mark.parametrize(
    ("start", "days", "expected"),
    [
        (FRIDAY, 1, MONDAY),
        (MONDAY, -1, FRIDAY),
        (SATURDAY, 1, MONDAY),
        (SATURDAY, -1, FRIDAY),
        (FRIDAY, 0, FRIDAY),
        (SATURDAY, 0, MONDAY),
        (FRIDAY, 5, date(2024, 5, 10)),
        (MONDAY, 10, date(2024, 5, 20)),
    ],
    ids=str,
)
def test_working_days_are_added(start, days, expected):
    assert PLAIN.add(start, days) == expected


def test_adding_working_days_skips_holidays():
    assert WITH_HOLIDAYS.add(date(2024, 12, 24), 1) == date(2024, 12, 27)
    assert WITH_HOLIDAYS.add(date(2024, 12, 27), -1) == date(2024, 12, 24)


def test_the_following_and_the_preceding_working_day_are_found():
    assert PLAIN.following(SUNDAY) == MONDAY
    assert PLAIN.preceding(SUNDAY) == FRIDAY
    assert PLAIN.following(MONDAY) == MONDAY
    assert PLAIN.preceding(MONDAY) == MONDAY


def test_modified_following_stays_in_the_month():
    assert PLAIN.modified_following(date(2024, 6, 29)) == date(2024, 6, 28)
    assert PLAIN.modified_following(SATURDAY) == MONDAY
    assert PLAIN.modified_following(FRIDAY) == FRIDAY


def test_the_working_days_between_two_dates_are_counted():
    assert PLAIN.between(FRIDAY, MONDAY) == 1
    assert PLAIN.between(MONDAY, FRIDAY) == -1
    assert PLAIN.between(SATURDAY, MONDAY) == 0
    assert PLAIN.between(MONDAY, MONDAY) == 0
    assert WITH_HOLIDAYS.between(date(2024, 12, 23), date(2024, 12, 30)) == 3
