import pytest

from tally import DataError, Filter, parse_filter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", Filter("a", "=", "1")),
        ("a != 1", Filter("a", "!=", "1")),
        ("a<=1", Filter("a", "<=", "1")),
        ("a<1", Filter("a", "<", "1")),
        ("a>=1", Filter("a", ">=", "1")),
        ("name~x=y", Filter("name", "~", "x=y")),
        ("a=", Filter("a", "=", "")),
        ("a=b>c", Filter("a", "=", "b>c")),
    ],
)
def test_a_condition_is_read(text, expected):
    assert parse_filter(text) == expected


@pytest.mark.parametrize(("text", "reason"), [("a", "none of the signs"), ("=1", "no column"), ("  >2", "no column")])
def test_what_is_no_condition_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_filter(text)


@pytest.mark.parametrize(
    ("condition", "cell", "kept"),
    [
        ("a=1", "1.0", True),
        ("a=1", "2", False),
        ("a!=1", "2", True),
        ("a<10", "9", True),
        ("a<10", "10", False),
        ("a<=10", "10", True),
        ("a>9", "10", True),
        ("a>9", "9", False),
        ("a>=9", "9", True),
        ("a=x", "x", True),
        ("a=x", "X", False),
        ("a<b", "a", True),
        ("a~an", "Banana", True),
        ("a~AN", "banana", True),
        ("a~ab", "banana", False),
        ("a~1", "213", True),
    ],
)
def test_a_condition_keeps_what_meets_it(condition, cell, kept):
    assert parse_filter(condition).keeps({"a": cell}) is kept


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match="no column 'b'"):
        parse_filter("b=1").keeps({"a": "1"})
