"""What a gate leaves for others to read: JUnit XML, and what GitHub Actions is told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.core.errors import RecordError
from agentbench.evaluate.baseline import Measured
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.gate import Judged, Rule, judge
from agentbench.report.github import annotations, append, outputs, summary
from agentbench.report.junit import write_junit
from tests.evaluate.simulated import Outcome, planned, write_run

SCHEMA = xmlschema.XMLSchema(str(Path(__file__).parents[1] / "data" / "junit" / "junit.xsd"))
HOSTILE = "m\x1b[2J<b>\n::error::owned\n|`x`|%0A&amp;]]>\ufffe"
Outcomes = Sequence[Sequence[Outcome]]
RULE = Rule(fail_under={"coverage": 0.5, "success": 0.99})


def gate(folder: Path, before: Outcomes, after: Outcomes, **lock: Any) -> list[Judged]:
    baseline = Measured.of(Evidence.load(write_run(folder, before, **lock)))
    run = Evidence.load(write_run(folder, after, status="complete", **lock))
    return judge({run.env: run}, {run.env: baseline}, RULE)


@pytest.fixture
def regressed(tmp_path: Path) -> list[Judged]:
    before: Outcomes = [[True] * 3 for _ in range(20)]
    after: Outcomes = [[False] * 3] * 3 + [[None, True, True]] + [[True] * 3] * 16
    return gate(tmp_path, before, after)


def written(folder: Path, judged: list[Judged], **options: bool) -> ET.Element:
    write_junit(folder / "junit.xml", judged, RULE, **options)
    SCHEMA.validate(str(folder / "junit.xml"))
    return ET.parse(folder / "junit.xml").getroot()


def test_junit_counts_what_failed(tmp_path: Path, regressed: list[Judged]) -> None:
    suite = written(tmp_path, regressed)[0]
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert suite.get("name") == "echo/3@0:test"
    assert len(cases) == 3 + 20
    bad = {name: case[0].tag for name, case in cases.items() if len(case)}
    severe = {planned(task, 0).task: "failure" for task in range(3)}
    assert bad == {**severe, planned(3, 0).task: "error", "not worse than the baseline": "failure",
                   "success is at least 0.99": "failure"}  # fmt: skip
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "23",
        "5",
        "1",
        "0",
    )
    facts = {prop.get("name"): prop.get("value") for prop in suite.iter("property")}
    assert facts["verdict"] == "regressed" and facts["severe"] == "3"
    assert facts["score"] == str(regressed[0].compared and regressed[0].compared.after)


def test_an_inconclusive_gate_is_a_skipped_case_or_a_failed_one(tmp_path: Path) -> None:
    judged = gate(tmp_path, [[True]] * 20, [[True]] * 19 + [[False]])
    for fails, tag in ((False, "skipped"), (True, "failure")):
        case = next(written(tmp_path, judged, inconclusive_fails=fails)[0].iter("testcase"))
        assert [child.tag for child in case] == [tag]


def test_a_lost_task_alone_is_no_failure(tmp_path: Path) -> None:
    judged = gate(tmp_path, [[True]] * 100, [[True]] * 99 + [[False]])
    suite = written(tmp_path, judged)[0]
    assert [case.get("name") for case in suite.iter("testcase") if len(case)] == []
    assert planned(99, 0).task in (suite.findtext("system-out") or "")


@settings(max_examples=25)
@given(text=st.text(st.characters(codec=None, categories=None), max_size=60))
def test_no_text_breaks_a_file_that_others_read(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    judged = gate(folder, [[True]] * 4, [[False]] * 4, split="te" + text.replace("\0", ""), policy=text or "m")
    written(folder, judged)
    assert all(line.count("\n") == 0 and line.startswith("::error ") for line in annotations(judged))
    assert all("\n" not in value and "\r" not in value for value in outputs(judged).values())


def test_annotations_come_worst_first_and_are_at_most_ten(regressed: list[Judged], tmp_path: Path) -> None:
    fine = gate(tmp_path, [[True]] * 3, [[True]] * 3)
    many = list(annotations([*fine * 11, *regressed]))
    assert len(many) == 10
    assert many[0].startswith("::error title=echo/3@0%3Atest%3A regressed::3 tasks always succeeded")
    assert "3 more environments" in many[-1]


def test_hostile_names_cannot_start_a_command_or_a_table(tmp_path: Path) -> None:
    judged = gate(tmp_path, [[True]] * 100, [[False]] * 100, policy=HOSTILE)
    lines = [*annotations(judged), *summary(judged, RULE).splitlines()]
    assert [line for line in lines if line.startswith("::")] == list(annotations(judged))
    rows = [line for line in summary(judged, RULE).splitlines() if line.startswith("|")]
    assert len(rows) == 3 and all("<b>" not in row for row in rows)


def test_summary_and_outputs_are_appended_where_the_runner_says(regressed: list[Judged], tmp_path: Path) -> None:
    variables = {"GITHUB_STEP_SUMMARY": str(tmp_path / "s"), "GITHUB_OUTPUT": str(tmp_path / "o")}
    (tmp_path / "o").write_text("before=1\n")
    append(regressed, RULE, variables)
    told = dict(line.split("=", 1) for line in (tmp_path / "o").read_text().splitlines())
    assert told["before"] == "1" and told["verdict"] == "regressed"
    assert float(told["ci_low"]) < float(told["delta"]) < float(told["ci_high"])
    assert "agentbench gate: regressed" in (tmp_path / "s").read_text()
    append(regressed, RULE, {})
    with pytest.raises(RecordError, match="GITHUB_OUTPUT"):
        append(regressed, RULE, {"GITHUB_OUTPUT": str(tmp_path / "none" / "o")})
