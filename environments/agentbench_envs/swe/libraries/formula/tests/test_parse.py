import pytest

from formula import Binary, Call, FormulaError, Name, Number, Unary, parse

A, B, C = Name("a"), Name("b"), Name("c")


def test_products_bind_more_strongly_than_sums():
    assert parse("a + b * c") == Binary("+", A, Binary("*", B, C))
    assert parse("a * b + c") == Binary("+", Binary("*", A, B), C)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
def test_equal_operators_group_from_the_left(operator):
    assert parse(f"a {operator} b {operator} c") == Binary(operator, Binary(operator, A, B), C)


def test_powers_group_from_the_right():
    assert parse("a ^ b ^ c") == Binary("^", A, Binary("^", B, C))


def test_parentheses_group():
    assert parse("(a + b) * c") == Binary("*", Binary("+", A, B), C)
    assert parse("((a))") == A


def test_a_sign_is_weaker_than_a_power_and_stronger_than_a_product():
    assert parse("-a ^ b") == Unary("-", Binary("^", A, B))
    assert parse("-a * b") == Binary("*", Unary("-", A), B)
    assert parse("a - -b") == Binary("-", A, Unary("-", B))


def test_a_plus_sign_is_dropped():
    assert parse("+a") == A
    assert parse("a + +b") == Binary("+", A, B)


def test_a_power_may_have_a_negative_exponent():
    assert parse("a ^ -b") == Binary("^", A, Unary("-", B))


def test_calls_are_parsed_with_their_arguments():
    assert parse("f()") == Call("f", ())
    assert parse("max(a, b + c)") == Call("max", (A, Binary("+", B, C)))
    assert parse("f(g(a), b)") == Call("f", (Call("g", (A,)), B))


def test_numbers_are_whole_or_not():
    assert parse("12") == Number(12)
    assert isinstance(parse("12").value, int)
    assert isinstance(parse("12.0").value, float)
    assert parse("1e2") == Number(100.0)


@pytest.mark.parametrize(
    ("formula", "position"),
    [("", 0), ("a +", 3), ("(a", 2), ("a)", 1), ("a b", 2), ("f(a b)", 4), ("* a", 0), ("f(,)", 2)],
)
def test_an_error_has_its_position(formula, position):
    with pytest.raises(FormulaError) as error:
        parse(formula)
    assert error.value.position == position


def test_an_error_says_what_was_expected():
    with pytest.raises(FormulaError, match=r"expected \), found the end at 2"):
        parse("(a")
