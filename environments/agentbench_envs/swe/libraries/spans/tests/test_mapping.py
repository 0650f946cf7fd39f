import pytest

from spans import SpanMap, SpanSet


@pytest.fixture
def week():
    plan = SpanMap()
    plan[0:5] = "work"
    plan[5:7] = "rest"
    return plan


def test_a_point_has_the_value_of_its_span(week):
    assert week[0] == "work"
    assert week[4.9] == "work"
    assert week[5] == "rest"


@pytest.mark.parametrize("point", [-1, 7, 8])
def test_outside_there_is_no_value(week, point):
    with pytest.raises(KeyError):
        week[point]
    assert week.get(point) is None
    assert week.get(point, "free") == "free"


def test_get_finds_what_is_there(week):
    assert week.get(6) == "rest"


def test_a_later_value_covers_an_earlier_one(week):
    week[2:3] = "travel"
    assert list(week) == [(0, 2, "work"), (2, 3, "travel"), (3, 5, "work"), (5, 7, "rest")]


def test_a_value_may_cover_several_spans(week):
    week[1:6] = "ill"
    assert list(week) == [(0, 1, "work"), (1, 6, "ill"), (6, 7, "rest")]


def test_neighbours_of_equal_value_are_joined(week):
    week[7:9] = "rest"
    assert list(week) == [(0, 5, "work"), (5, 9, "rest")]
    week[-1:0] = "work"
    assert list(week) == [(-1, 5, "work"), (5, 9, "rest")]


def test_a_hole_is_filled_and_joined_on_both_sides():
    plan = SpanMap()
    plan[0:1] = "a"
    plan[2:3] = "a"
    plan[1:2] = "a"
    assert list(plan) == [(0, 3, "a")]


def test_an_empty_span_changes_nothing(week):
    week[3:3] = "nothing"
    assert len(week) == 2


def test_values_can_be_removed(week):
    del week[4:6]
    assert list(week) == [(0, 4, "work"), (6, 7, "rest")]
    assert week.domain() == SpanSet([(0, 4), (6, 7)])


def test_it_is_known_where_a_value_stands(week):
    week[2:3] = "rest"
    assert week.where("rest") == SpanSet([(2, 3), (5, 7)])
    assert week.where("travel") == SpanSet()


def test_the_total_length_of_each_value(week):
    week[2:3] = "rest"
    assert week.totals() == {"work": 4, "rest": 3}


def test_malformed_spans_are_refused(week):
    with pytest.raises(TypeError):
        week[3] = "x"
    with pytest.raises(TypeError):
        week[0:4:2] = "x"
    with pytest.raises(ValueError, match="both ends"):
        week[:4] = "x"
    with pytest.raises(ValueError, match="stops before"):
        week[4:1] = "x"
    assert len(week) == 2
