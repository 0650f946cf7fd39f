import pytest

from formula import Number, Unary, evaluate, parse, show, simplify

SHORTEST = [
    "a",
    "a + b * c",
    "(a + b) * c",
    "a - b - c",
    "a - (b - c)",
    "a / (b * c)",
    "a^b^c",
    "(a^b)^c",
    "-a^2",
    "(-a)^2",
    "-(a + b)",
    "a * -b",
    "max(a, b + c)",
    "f()",
    "2.5 * a",
    "a % b * c",
    "a^(b + 1)",
]


@pytest.mark.parametrize("text", SHORTEST)
def test_no_parenthesis_is_too_many(text):
    assert show(parse(text)) == text


@pytest.mark.parametrize("text", SHORTEST)
def test_what_is_shown_parses_to_the_same_tree(text):
    assert parse(show(parse(text))) == parse(text)


def test_blanks_and_parentheses_are_made_uniform():
    assert show(parse("(a+b)*c - (d)")) == "(a + b) * c - d"
    assert show(parse("a ^ ( b )")) == "a^b"


def test_numbers_are_shown_as_they_are():
    assert show(Number(3)) == "3"
    assert show(Number(3.0)) == "3.0"
    assert show(Number(0.1)) == "0.1"
    assert show(Unary("-", Number(3))) == "-3"


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("x + 0", "x"),
        ("0 + x", "x"),
        ("x - 0", "x"),
        ("0 - x", "-x"),
        ("x * 1", "x"),
        ("1 * x", "x"),
        ("x * 0", "0"),
        ("0 * x", "0"),
        ("x / 1", "x"),
        ("x ^ 1", "x"),
        ("x ^ 0", "1"),
        ("--x", "x"),
        ("2 * 3 + x", "6 + x"),
        ("max(1, 2) * x", "2 * x"),
        ("(x + 0) * (2 - 1)", "x"),
        ("1 / x", "1 / x"),
        ("0 - 5", "-5"),
    ],
)
def test_formulas_are_simplified(text, shorter):
    assert show(simplify(parse(text))) == shorter


def test_simplifying_leaves_alone_what_has_no_value():
    assert simplify(parse("1 / 0")) == parse("1 / 0")
    assert simplify(parse("sin(1)")) == parse("sin(1)")


@pytest.mark.parametrize("text", ["a + b * 2 - 0", "-(a - 1) * 1", "a ^ 1 / 2 + 0 * b", "max(a, 1 + 1)"])
def test_simplifying_keeps_the_value(text):
    at = {"a": 7, "b": 3}
    assert evaluate(simplify(parse(text)), at) == evaluate(parse(text), at)
