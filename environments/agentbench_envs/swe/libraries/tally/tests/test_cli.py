import json

import pytest

from tally import main, render

SALES = "region,kind,amount\nnorth,a,30\nsouth,b,7\nnorth,b,12\n"


@pytest.fixture
def sales(tmp_path):
    file = tmp_path / "sales.csv"
    file.write_text(SALES, encoding="utf-8")
    return str(file)


def run(capsys, *arguments):
    code = main(arguments)
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def test_the_sum_by_group_is_printed_as_a_table(sales, capsys):
    code, out, _ = run(capsys, sales, "--by", "region", "--sum", "amount")
    assert code == 0
    assert out == "region  amount_sum\nnorth           42\nsouth            7\n"


def test_the_mean_by_group_is_printed_as_csv(sales, capsys):
    _, out, _ = run(capsys, sales, "--by", "kind", "--mean", "amount", "--format", "csv")
    assert out == "kind,amount_mean\na,30\nb,9.5\n"


def test_the_least_and_the_greatest_are_printed_as_json(sales, capsys):
    _, out, _ = run(capsys, sales, "--max", "amount", "--min", "amount", "--format", "json")
    assert json.loads(out) == [{"amount_min": 7, "amount_max": 30}]


def test_rows_must_meet_every_condition(sales, capsys):
    _, out, _ = run(capsys, sales, "--where", "region=north", "--where", "amount>20", "--format", "csv")
    assert out == "count\n1\n"


def test_groups_are_sorted_and_limited(sales, capsys):
    _, out, _ = run(
        capsys, sales, "--by", "region", "--sum", "amount", "--sort", "amount_sum", "--limit", "1", "--format", "csv"
    )
    assert out == "region,amount_sum\nsouth,7\n"
    _, out, _ = run(capsys, sales, "--by", "region", "--sort", "region", "--descending", "--format", "csv")
    assert out == "region,count\nsouth,1\nnorth,2\n"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--by", "x"], 1, "no column 'x'"),
        (["--sum", "region"], 1, "is no number"),
        (["--sort", "x"], 1, "cannot sort"),
        (["--where", "amount"], 2, "none of the signs"),
    ],
)
def test_errors_say_what_is_wrong(sales, capsys, arguments, code, reason):
    ended, out, err = run(capsys, sales, *arguments)
    assert (ended, out) == (code, "")
    assert err.startswith("tally: ")
    assert reason in err


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    code, _, err = run(capsys, str(tmp_path / "none.csv"))
    assert code == 1
    assert "none.csv" in err


@pytest.mark.parametrize("arguments", [[], ["f", "--limit", "-1"], ["f", "--format", "xml"]])
def test_wrong_arguments_end_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_numbers_are_written_short():
    assert render([{"x": 1 / 3}]) == "     x\n0.3333\n"
    assert render([{"x": 2.5}], "csv") == "x\n2.5\n"
    assert render([{"x": 2.0}], "csv") == "x\n2\n"


def test_texts_stand_left_and_numbers_right():
    assert render([{"name": "x", "n": 1}, {"name": "longer", "n": 100}]) == "name      n\nx         1\nlonger  100\n"


def test_no_results_are_no_text():
    assert render([]) == ""
    assert render([], "csv") == ""
    assert render([], "json") == "[]\n"


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="no format 'xml'"):
        render([], "xml")
