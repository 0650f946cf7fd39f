import pytest

from tally import Aggregate, DataError, summarise
from tally.groups import order

ROWS = [
    {"region": "north", "kind": "a", "amount": "3"},
    {"region": "south", "kind": "a", "amount": "1"},
    {"region": "north", "kind": "b", "amount": "5"},
    {"region": "north", "kind": "a", "amount": ""},
]


def test_rows_are_counted_if_nothing_else_is_asked_for():
    assert summarise(ROWS, ["region"], []) == [{"region": "north", "count": 3}, {"region": "south", "count": 1}]
    assert summarise(ROWS, [], []) == [{"count": 4}]


@pytest.mark.parametrize(
    ("kind", "north", "south"), [("sum", 8, 1), ("mean", 4, 1), ("min", 3, 1), ("max", 5, 1), ("count", 2, 1)]
)
def test_a_column_is_summarised_by_group(kind, north, south):
    name = f"amount_{kind}"
    assert summarise(ROWS, ["region"], [Aggregate(kind, "amount")]) == [
        {"region": "north", name: north},
        {"region": "south", name: south},
    ]


def test_several_columns_make_a_group():
    result = summarise(ROWS, ["region", "kind"], [Aggregate("sum", "amount")])
    assert [(row["region"], row["kind"], row["amount_sum"]) for row in result] == [
        ("north", "a", 3),
        ("south", "a", 1),
        ("north", "b", 5),
    ]


def test_a_group_without_values_has_a_summary():
    empty = [{"a": "x", "b": ""}]
    asked = [Aggregate(kind, "b") for kind in ("sum", "mean", "count", "max")]
    assert summarise(empty, ["a"], asked) == [{"a": "x", "b_sum": 0, "b_mean": "", "b_count": 0, "b_max": ""}]


def test_no_rows_at_all_are_counted():
    assert summarise([], [], []) == [{"count": 0}]
    assert summarise([], ["a"], []) == []


@pytest.mark.parametrize(("by", "column"), [(["x"], "amount"), (["region"], "x")])
def test_a_missing_column_is_named(by, column):
    with pytest.raises(DataError, match="no column 'x'"):
        summarise(ROWS, by, [Aggregate("sum", column)])


def test_what_is_no_number_is_named():
    with pytest.raises(DataError, match="'a' in column 'kind' is no number"):
        summarise(ROWS, [], [Aggregate("sum", "kind")])


def test_results_are_sorted():
    rows = [{"n": 10}, {"n": 9}, {"n": "x"}, {"n": "2"}]
    assert [row["n"] for row in order(rows, "n")] == ["2", 9, 10, "x"]
    assert [row["n"] for row in order(rows, "n", descending=True)] == ["x", 10, 9, "2"]
    assert order(rows, None) == rows


def test_results_are_limited():
    rows = [{"n": 1}, {"n": 2}]
    assert order(rows, None, limit=1) == [{"n": 1}]
    assert order(rows, "n", descending=True, limit=1) == [{"n": 2}]
    assert order(rows, None, limit=0) == []


def test_sorting_by_an_unknown_column_is_refused():
    with pytest.raises(DataError, match="cannot sort by 'm'"):
        order([{"n": 1}], "m")
    assert order([], "m") == []
