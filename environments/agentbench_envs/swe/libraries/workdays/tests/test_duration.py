from datetime import datetime

import pytest

from workdays import Duration, parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("P1Y", Duration(months=12)),
        ("P2M", Duration(months=2)),
        ("P1Y2M", Duration(months=14)),
        ("P3W", Duration(days=21)),
        ("P1W2D", Duration(days=9)),
        ("PT1H", Duration(seconds=3600)),
        ("PT2M", Duration(seconds=120)),
        ("PT1H2M3S", Duration(seconds=3723)),
        ("P1Y2M3W4DT5H6M7S", Duration(14, 25, 18367)),
        ("-P1DT1S", Duration(0, -1, -1)),
        (" P1D ", Duration(days=1)),
        ("PT0S", Duration()),
    ],
)
def test_a_duration_is_read(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "P", "PT", "P1", "1D", "P1H", "P1DT", "PT1D", "P-1D", "P1D2W"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["P1Y2M", "P25D", "PT1H1S", "P1Y2M25DT5H6M7S", "PT0S", "-P1M1D", "PT2M"])
def test_a_duration_is_written_as_it_was_read(text):
    assert str(parse_duration(text)) == text


def test_parts_of_both_signs_cannot_be_written():
    with pytest.raises(ValueError, match="both signs"):
        str(Duration(1, -1))


def test_durations_are_added_and_negated():
    assert Duration(1, 2, 3) + Duration(10, 20, 30) == Duration(11, 22, 33)
    assert -Duration(1, -2, 3) == Duration(-1, 2, -3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1M", datetime(2024, 2, 29, 12)),
        ("P1M1D", datetime(2024, 3, 1, 12)),
        ("-P2M", datetime(2023, 11, 30, 12)),
        ("PT13H", datetime(2024, 2, 1, 1)),
    ],
    ids=str,
)
def test_a_duration_is_added_to_a_date_months_first(text, expected):
    assert parse_duration(text).after(datetime(2024, 1, 31, 12)) == expected
