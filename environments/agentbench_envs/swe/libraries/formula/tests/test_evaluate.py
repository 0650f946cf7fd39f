import math

import pytest

from formula import EvaluationError, evaluate, names, parse


def value(formula, **variables):
    return evaluate(parse(formula), variables)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("2 ^ 3 ^ 2", 512),
        ("-2 ^ 2", -4),
        ("7 % 3", 1),
        ("-7 % 3", 2),
        ("7 / 2", 3.5),
        ("2 ^ -1", 0.5),
        ("0 ^ 0", 1),
    ],
)
def test_formulas_without_variables_are_computed(formula, expected):
    assert value(formula) == expected


def test_a_whole_quotient_stays_whole():
    assert isinstance(value("6 / 3"), int)
    assert isinstance(value("6.0 / 3"), float)
    assert value("10 ^ 20 / 10") == 10**19


def test_formulas_with_variables_are_computed():
    assert value("2 * (x + 1) ^ 2", x=3) == 32
    assert value("x - y", x=1, y=4) == -3


def test_an_unknown_variable_is_named():
    with pytest.raises(EvaluationError, match="y has no value"):
        value("x + y", x=1)


@pytest.mark.parametrize("formula", ["1 / 0", "1 % 0", "0 ^ -1", "1 / (2 - 2)"])
def test_a_division_by_zero_has_no_value(formula):
    with pytest.raises(EvaluationError, match="division by zero"):
        value(formula)


@pytest.mark.parametrize("formula", ["(-8) ^ 0.5", "sqrt(-1)"])
def test_a_root_of_a_negative_number_has_no_value(formula):
    with pytest.raises(EvaluationError, match="root"):
        value(formula)


def test_large_exponents_are_refused():
    assert value("1 ^ 1000") == 1
    with pytest.raises(EvaluationError, match="too large"):
        value("2 ^ 1001")
    with pytest.raises(EvaluationError, match="too large"):
        value("2 ^ -1001")


def test_functions_are_computed():
    assert value("max(1, 5, 3)") == 5
    assert value("min(4, 2)") == 2
    assert value("min(4)") == 4
    assert value("abs(-3)") == 3
    assert value("round(2.6)") == 3
    assert value("round(2.345, 1)") == 2.3
    assert math.isclose(value("sqrt(2)"), math.sqrt(2))
    assert value("sqrt(16)") == 4


@pytest.mark.parametrize("formula", ["max()", "abs(1, 2)", "sqrt()", "round(1, 2, 3)"])
def test_a_wrong_number_of_arguments_is_refused(formula):
    with pytest.raises(EvaluationError, match="does not take"):
        value(formula)


def test_an_unknown_function_is_named():
    with pytest.raises(EvaluationError, match="no function sin"):
        value("sin(1)")


def test_the_names_in_a_formula_are_those_of_its_variables():
    assert names(parse("a + max(b, 2 * -c) - a")) == {"a", "b", "c"}
    assert names(parse("1 + 2")) == set()
    assert names(parse("f()")) == set()
