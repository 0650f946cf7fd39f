from spans import SpanSet

MORNING = SpanSet([(8, 12)])
DAY = SpanSet([(8, 12), (13, 17)])


def test_the_union_of_two_sets():
    assert MORNING | SpanSet([(13, 17)]) == DAY
    assert DAY | SpanSet([(12, 13)]) == SpanSet([(8, 17)])
    assert DAY | SpanSet() == DAY


def test_the_intersection_of_two_sets():
    assert DAY & SpanSet([(10, 14)]) == SpanSet([(10, 12), (13, 14)])
    assert DAY & SpanSet([(12, 13)]) == SpanSet()


def test_the_difference_of_two_sets():
    assert DAY - MORNING == SpanSet([(13, 17)])
    assert MORNING - SpanSet([(9, 10)]) == SpanSet([(8, 9), (10, 12)])
    assert MORNING - DAY == SpanSet()


def test_the_symmetric_difference_of_two_sets():
    assert MORNING ^ SpanSet([(10, 14)]) == SpanSet([(8, 10), (12, 14)])
    assert DAY ^ DAY == SpanSet()


def test_a_subset_is_told_from_others():
    assert MORNING <= DAY
    assert MORNING < DAY
    assert DAY <= DAY
    assert not DAY < DAY
    assert not DAY <= MORNING
    assert SpanSet() <= MORNING


def test_a_set_knows_the_points_in_it():
    assert 8 in DAY
    assert 12 not in DAY
    assert 16.99 in DAY


def test_equal_sets_have_equal_hashes():
    assert hash(SpanSet([(1, 2), (2, 3)])) == hash(SpanSet([(1, 3)]))
    assert SpanSet([(1, 3)]) != [(1, 3)]


def test_a_set_knows_its_size_and_its_spans():
    assert DAY.size == 8
    assert SpanSet().size == 0
    assert len(DAY) == 2
    assert list(DAY) == [(8, 12), (13, 17)]


def test_the_hull_and_the_gaps_of_a_set():
    assert DAY.hull == (8, 17)
    assert SpanSet().hull is None
    assert DAY.gaps() == SpanSet([(12, 13)])
    assert MORNING.gaps() == SpanSet()


def test_the_representation_of_a_set_holds_its_spans():
    assert repr(MORNING) == "SpanSet([(8, 12)])"


def test_disjoint_sets_are_told_from_others():
    assert MORNING.isdisjoint(SpanSet([(12, 13)]))
    assert not MORNING.isdisjoint(SpanSet([(11, 13)]))
