import pytest

from tally import DataError, read
from tally.reader import guess, number


def rows(text, delimiter=None):
    return list(read(text.splitlines(keepends=True), delimiter))


def test_the_first_line_names_the_columns():
    assert rows("a,b\n1,2\n3,4\n") == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_blanks_around_cells_are_dropped():
    assert rows(" a , b \n 1 ,2 \n") == [{"a": "1", "b": "2"}]


def test_blank_lines_are_skipped():
    assert rows("a,b\n\n1,2\n , \n") == [{"a": "1", "b": "2"}]


def test_quotes_protect_delimiters():
    assert rows('a,b\n"x, y",2\n') == [{"a": "x, y", "b": "2"}]


def test_a_byte_order_mark_is_no_part_of_a_name():
    assert rows("\ufeffa,b\n1,2\n") == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("text", ["", "\n", "   \n1,2\n"])
def test_a_file_needs_a_header(text):
    with pytest.raises(DataError, match="line 1: the file has no header"):
        rows(text)


def test_a_column_stands_once():
    with pytest.raises(DataError, match="line 1: the column 'b' stands twice"):
        rows("a,b,b\n")


@pytest.mark.parametrize(("text", "line"), [("a,b\n1\n", 2), ("a,b\n1,2\n1,2,3\n", 3)])
def test_a_row_has_as_many_cells_as_columns(text, line):
    with pytest.raises(DataError, match="expected 2") as error:
        rows(text)
    assert error.value.line == line


@pytest.mark.parametrize(("header", "delimiter"), [("a;b;c", ";"), ("a\tb", "\t"), ("a", ","), ("a|b,c|d", "|")])
def test_the_delimiter_is_found(header, delimiter):
    assert guess(header) == delimiter


def test_a_delimiter_can_be_given():
    assert rows("a;b,c\n1;2,3\n", ";") == [{"a": "1", "b,c": "2,3"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("-3", -3), ("1.50", 1.5), ("1,234", 1234), ("50%", 0.5), ("1e3", 1000.0), ("2.0", 2.0)],
)
def test_numbers_are_read(text, value):
    assert number(text) == value
    assert type(number(text)) is type(value)


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "nan", "inf", "-inf", "%", "12 kg"])
def test_what_is_no_number_is_told_from_numbers(text):
    assert number(text) is None
