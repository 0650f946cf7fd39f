import pytest

from spans import normalise
from spans.merge import combine, covers


def test_spans_are_sorted():
    assert normalise([(5, 6), (1, 2)]) == [(1, 2), (5, 6)]


def test_overlapping_spans_are_joined():
    assert normalise([(1, 4), (3, 6)]) == [(1, 6)]
    assert normalise([(1, 9), (2, 3), (4, 5)]) == [(1, 9)]


def test_touching_spans_are_joined():
    assert normalise([(1, 2), (2, 3)]) == [(1, 3)]


def test_empty_spans_are_dropped():
    assert normalise([(3, 3)]) == []
    assert normalise([(1, 2), (2, 2)]) == [(1, 2)]


def test_a_span_that_stops_before_it_starts_is_refused():
    with pytest.raises(ValueError, match=r"\(2, 1\)"):
        normalise([(2, 1)])


@pytest.mark.parametrize(
    ("point", "inside"), [(0, False), (1, True), (3, True), (4, False), (5, False), (6, True), (8.5, True), (9, False)]
)
def test_a_span_holds_its_start_and_not_its_stop(point, inside):
    assert covers([(1, 4), (6, 9)], point) is inside


def test_nothing_covers_nothing():
    assert not covers([], 0)


def test_combining_keeps_what_is_asked_for():
    left, right = [(0, 4)], [(2, 6)]
    assert combine(left, right, lambda here, there: here and there) == [(2, 4)]
    assert combine(left, right, lambda here, there: here or there) == [(0, 6)]
    assert combine(left, right, lambda here, there: there and not here) == [(4, 6)]
