from datetime import date

import pytest

from workdays import easter, fixed, floating, observed, relative_to_easter


@pytest.mark.parametrize(
    "day",
    [
        date(1961, 4, 2),
        date(1981, 4, 19),
        date(1954, 4, 18),
        date(2000, 4, 23),
        date(2008, 3, 23),
        date(2011, 4, 24),
        date(2024, 3, 31),
        date(2025, 4, 20),
        date(2026, 4, 5),
        date(2038, 4, 25),
    ],
    ids=str,
)
def test_the_date_of_easter(day):
    assert easter(day.year) == day


def test_easter_is_a_sunday_between_22_march_and_25_april():
    for year in range(1900, 2100):
        assert easter(year).weekday() == 6
        assert (3, 22) <= (easter(year).month, easter(year).day) <= (4, 25)


def test_holidays_on_a_date_and_on_the_nth_weekday():
    assert fixed(12, 25)(2024) == date(2024, 12, 25)
    assert floating(11, 3, 4)(2024) == date(2024, 11, 28)
    assert floating(5, 0, -1)(2024) == date(2024, 5, 27)


def test_holidays_so_many_days_from_easter():
    assert relative_to_easter(-2)(2024) == date(2024, 3, 29)
    assert relative_to_easter(39)(2024) == date(2024, 5, 9)


@pytest.mark.parametrize(
    ("year", "day"), [(2022, date(2021, 12, 31)), (2023, date(2023, 1, 2)), (2024, date(2024, 1, 1))], ids=str
)
def test_a_holiday_on_a_weekend_is_observed_on_a_working_day(year, day):
    assert observed(fixed(1, 1))(year) == day
