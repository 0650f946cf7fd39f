import pytest

from formula import FormulaError, tokenize


def texts(formula):
    return [token.text for token in tokenize(formula)]


def test_blanks_separate_and_mean_nothing():
    assert texts(" 1 +\t2\n") == ["1", "+", "2", ""]


def test_names_hold_letters_digits_and_underscores():
    assert texts("x_1*y2") == ["x_1", "*", "y2", ""]
    assert texts("_a") == ["_a", ""]


def test_positions_count_from_zero():
    assert [token.position for token in tokenize("ab + 12")] == [0, 3, 5, 7]


def test_tokens_have_a_kind():
    assert [token.kind for token in tokenize("f(2)")] == ["name", "operator", "number", "operator", "end"]


@pytest.mark.parametrize("number", ["0", "12", "1.5", ".5", "2.", "1e3", "1.5E-3", "2e+10"])
def test_a_number_is_one_token(number):
    assert texts(number) == [number, ""]


def test_an_e_without_digits_is_a_name():
    assert texts("2e") == ["2", "e", ""]
    assert texts("2e+x") == ["2", "e", "+", "x", ""]


@pytest.mark.parametrize(("formula", "position"), [("1 $ 2", 2), ("1.2.3", 0), ("x + .", 4)])
def test_what_is_no_token_is_refused(formula, position):
    with pytest.raises(FormulaError) as error:
        tokenize(formula)
    assert error.value.position == position
