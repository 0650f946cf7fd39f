import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.swe.grade import Canaries, grade, parse_log, read_report, with_cut_ids
from hypothesis import given
from hypothesis import strategies as st

RESOLVED = {"RESOLVED_FULL": "full", "RESOLVED_PARTIAL": "partial", "RESOLVED_NO": "no"}
CANARIES = Canaries("c.py::good", "c.py::bad")
HONEST: list[list[Any]] = [
    ["t.py::a", "PASSED", ""],
    ["c.py::good", "PASSED", ""],
    ["c.py::bad", "FAILED", "assert False"],
    ["", 1, 0.5],
]

outcomes = st.sampled_from(["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS"])


@pytest.fixture(scope="module")
def recorded() -> Any:
    path = Path(__file__).parents[2] / "data" / "golden" / "environments" / "swe_grading.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def lines(rows: list[list[Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_recorded_cases_are_graded_as_swe_bench_grades_them(recorded: Any) -> None:
    assert len(recorded["grading"]) >= 100
    for case in recorded["grading"]:
        found = grade(case["status_map"], case["FAIL_TO_PASS"], case["PASS_TO_PASS"])
        assert found.resolved == RESOLVED[case["status"]]
        assert found.fail_to_pass_rate == pytest.approx(case["f2p"])
        assert found.pass_to_pass_rate == pytest.approx(case["p2p"])


def test_recorded_logs_are_read_as_swe_bench_reads_them(recorded: Any) -> None:
    for case in recorded["parse_log_pytest"]:
        assert parse_log(case["log"]) == case["status_map"]


@pytest.mark.parametrize(
    ("outcomes", "found"),
    [
        (["PASSED"], "full"),
        (["PASSED", "XFAIL"], "full"),
        (["PASSED", "FAILED"], "no"),
        (["ERROR", "PASSED"], "no"),
        (["SKIPPED", "PASSED"], "no"),
        ([], "no"),
    ],
)
def test_an_id_that_was_cut_at_a_blank_stands_for_the_worst_of_its_tests(outcomes: list[str], found: str) -> None:
    status = {f"t.py::e[a {number}]": outcome for number, outcome in enumerate(outcomes)} | {"t.py::e[b]": "PASSED"}
    assert grade(status, ["t.py::e[a"], []).resolved == "no"
    assert grade(with_cut_ids(status), ["t.py::e[a"], ["t.py::e[b]", *status]).resolved == found


def test_outcomes_by_cut_ids_are_those_of_a_log(recorded: Any) -> None:
    for case in recorded["parse_log_pytest"]:
        assert with_cut_ids(case["status_map"]) == case["status_map"]


def test_an_untouched_repository_earns_nothing() -> None:
    status = {"t.py::broken": "FAILED"} | {f"t.py::{n}": "PASSED" for n in range(99)}
    assert grade(status, ["t.py::broken"], [f"t.py::{n}" for n in range(99)]).fraction == 0


def test_a_repair_that_breaks_something_else_earns_no_fraction() -> None:
    found = grade({"a": "PASSED", "b": "FAILED"}, ["a"], ["b"])
    assert (found.resolved, found.fraction, found.fail_to_pass_rate) == ("no", 0, 1)


@given(st.dictionaries(st.sampled_from("abcdefgh"), outcomes), st.sets(st.sampled_from("abcd")))
def test_full_means_that_every_rate_is_one(status: dict[str, str], failing: set[str]) -> None:
    found = grade(status, failing, set("efgh"))
    assert (found.resolved == "full") == (found.fail_to_pass_rate == found.pass_to_pass_rate == 1)
    assert 0 <= found.fraction <= 1
    assert found.fraction == 0 or found.resolved != "no"


def test_an_honest_report_is_believed_and_hides_the_canaries() -> None:
    report = read_report(lines(HONEST), 1, CANARIES)
    assert report == ({"t.py::a": "PASSED"}, {}, "", 0.5)


@pytest.mark.parametrize(
    ("rows", "exit_code", "reason"),
    [
        ([], 0, "ended early"),
        (HONEST[:-1], 1, "ended early"),
        (HONEST, 0, "exit code 0"),
        (HONEST, 2, "exit code 2"),
        ([*HONEST[:-1], ["", 0, 0.5]], 1, "exit code 1"),
        ([HONEST[0], HONEST[1], ["c.py::bad", "PASSED", ""], ["", 1, 0.5]], 1, "must fail"),
        ([HONEST[0], HONEST[2], ["", 1, 0.5]], 1, "must pass"),
        ([HONEST[0], HONEST[1], ["", 1, 0.5]], 1, "absent"),
        ([HONEST[0], *HONEST], 1, "twice"),
        ([["t.py::a", "PASSED"]], 1, "damaged"),
        ([[7]], 1, "damaged"),
        ([*HONEST[:-1], ["", 1, "long"]], 1, "damaged"),
    ],
)
def test_a_report_that_no_honest_run_writes_is_not_believed(rows: list[Any], exit_code: int, reason: str) -> None:
    report = read_report(lines(rows), exit_code, CANARIES)
    assert not report.status
    assert reason in report.doubt


@given(st.text(max_size=200))
def test_no_text_is_believed_by_chance(text: str) -> None:
    assert not read_report(text, 1, CANARIES).status
