import pytest

from spans import SpanSet

FREE = SpanSet([(9, 10), (11, 14), (15, 20)])


def test_spans_are_shifted():
    assert FREE.shift(1) == SpanSet([(10, 11), (12, 15), (16, 21)])
    assert FREE.shift(-9).hull == (0, 11)


def test_growing_joins_what_meets():
    assert FREE.grow(0.5) == SpanSet([(8.5, 20.5)])
    assert FREE.grow(0.25) == SpanSet([(8.75, 10.25), (10.75, 14.25), (14.75, 20.25)])


def test_shrinking_drops_what_vanishes():
    assert FREE.grow(-0.5) == SpanSet([(11.5, 13.5), (15.5, 19.5)])
    assert FREE.grow(-2) == SpanSet([(17, 18)])


@pytest.mark.parametrize(("length", "count"), [(0.5, 3), (1, 3), (2, 2), (3, 2), (4, 1), (6, 0)])
def test_spans_of_a_least_length(length, count):
    assert len(FREE.at_least(length)) == count


@pytest.mark.parametrize(
    ("length", "after", "expected"),
    [
        (1, float("-inf"), (9, 10)),
        (2, float("-inf"), (11, 13)),
        (3, 12, (15, 18)),
        (1, 12.5, (12.5, 13.5)),
        (1, 13, (13, 14)),
        (5, 0, (15, 20)),
        (6, 0, None),
        (1, 20, None),
    ],
)
def test_the_earliest_span_that_fits(length, after, expected):
    assert FREE.first_fit(length, after) == expected


def test_without_a_bound_the_first_that_is_long_enough_fits():
    assert FREE.first_fit(2) == (11, 13)
