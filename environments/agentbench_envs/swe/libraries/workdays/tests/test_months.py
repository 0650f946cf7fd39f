from datetime import date

import pytest

from workdays import add_months, days_in_month, is_leap, nth_weekday


@pytest.mark.parametrize(
    ("year", "leap"), [(2024, True), (2023, False), (1900, False), (2000, True), (2100, False), (1996, True)]
)
def test_leap_years_are_told_from_others(year, leap):
    assert is_leap(year) is leap


def test_months_have_their_lengths():
    assert [days_in_month(2023, month) for month in range(1, 13)] == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    assert days_in_month(2024, 2) == 29


@pytest.mark.parametrize("month", [0, 13, -1])
def test_there_are_twelve_months(month):
    with pytest.raises(ValueError, match="no month"):
        days_in_month(2024, month)


@pytest.mark.parametrize(
    ("day", "months", "expected"),
    [
        (date(2024, 1, 15), 1, date(2024, 2, 15)),
        (date(2024, 1, 31), 1, date(2024, 2, 29)),
        (date(2023, 1, 31), 1, date(2023, 2, 28)),
        (date(2024, 11, 30), 3, date(2025, 2, 28)),
        (date(2024, 12, 1), 1, date(2025, 1, 1)),
        (date(2024, 1, 1), -1, date(2023, 12, 1)),
        (date(2024, 3, 31), -13, date(2023, 2, 28)),
        (date(2024, 2, 29), 12, date(2025, 2, 28)),
        (date(2024, 5, 5), 0, date(2024, 5, 5)),
    ],
    ids=str,
)
def test_months_are_added(day, months, expected):
    assert add_months(day, months) == expected


@pytest.mark.parametrize(
    ("weekday", "n", "day"),
    [(0, 1, 6), (4, 1, 3), (2, 1, 1), (2, 5, 29), (3, 2, 9), (4, -1, 31), (0, -1, 27), (4, -2, 24), (2, -5, 1)],
)
def test_the_nth_weekday_of_a_month_is_found(weekday, n, day):
    assert nth_weekday(2024, 5, weekday, n) == date(2024, 5, day)


@pytest.mark.parametrize(("weekday", "n"), [(0, 5), (0, -5), (2, 6), (0, 0)])
def test_a_weekday_that_the_month_does_not_have_is_refused(weekday, n):
    with pytest.raises(ValueError):
        nth_weekday(2024, 5, weekday, n)
