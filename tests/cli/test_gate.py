"""`agentbench gate` as a user and a CI job run it."""

import json
from pathlib import Path

import pytest

from agentbench.evaluate.baseline import write_baseline
from tests.cli.command import agentbench, assert_one_clear_line
from tests.evaluate.simulated import Outcome, write_run


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """A baseline file of 80 tasks won among 100."""
    run = write_run(tmp_path / "before", wins(80))
    file = tmp_path / "agentbench.baseline.json"
    done = agentbench("gate", "--run", run, "--baseline", file, "--update-baseline", cwd=tmp_path)
    assert done.code == 0, done
    return file


def wins(count: int, tasks: int = 100) -> list[list[Outcome]]:
    return [[task < count] for task in range(tasks)]


@pytest.mark.parametrize(
    ("count", "options", "verdict", "code"),
    [
        (80, [], "ok", 0),
        (60, [], "regressed", 1),
        (77, [], "inconclusive", 0),
        (77, ["--inconclusive", "fail"], "inconclusive", 6),
        (77, ["--margin", "0.1"], "ok", 0),
        (77, ["--margin", "1"], "ok", 0),
        (80, ["--fail-under", "success=0.9"], "failed", 1),
        (60, ["--fail-under", "success=0.9"], "regressed", 1),
    ],
)
def test_verdicts_and_exit_codes(
    tmp_path: Path, baseline: Path, count: int, options: list[str], verdict: str, code: int
) -> None:
    run = write_run(tmp_path / "after", wins(count))
    done = agentbench("gate", "--run", run, "--baseline", baseline, "--json", *options, cwd=tmp_path)
    assert done.code == code, done
    last = done.events[-1]
    assert (last["event"], last["verdict"], last["exit_code"]) == ("done", verdict, code)
    assert done.events[0]["delta"] == pytest.approx((count - 80) / 100)
    assert done.events[0]["verdict"] == verdict
    assert f"echo/3@0:test: {verdict.replace('failed', 'ok, but under a threshold')}: " in done.err
    assert "80 % chance of ok" in done.err


def test_a_model_is_evaluated_as_its_baseline_was(tmp_path: Path, words: Path) -> None:
    file = tmp_path / "b.json"
    options = ["--env", words, "--baseline", file, "--json", "--out", tmp_path / "runs"]
    made = agentbench("gate", "--model", "oracle", "-n", "12", *options, "--update-baseline", cwd=tmp_path)
    assert made.code == 0, made
    again = agentbench("gate", "--model", "oracle", "--baseline", file, "--json", cwd=tmp_path)
    assert again.events[-1]["verdict"] == "ok", again
    worse = agentbench("gate", "--model", "nop", *options, "--junit", tmp_path / "j.xml", cwd=tmp_path)
    assert (worse.code, worse.events[-1]["verdict"]) == (1, "regressed")
    assert worse.events[-2]["tasks"] == 12
    assert (tmp_path / "j.xml").read_text().count("<testcase") == 13
    other = agentbench("gate", "--model", "oracle", "-n", "13", *options, cwd=tmp_path)
    assert_one_clear_line(other, 7, "panel", "--update-baseline")


def test_github_is_told(tmp_path: Path, baseline: Path) -> None:
    run = write_run(tmp_path / "after", wins(60))
    files = {"GITHUB_STEP_SUMMARY": str(tmp_path / "s.md"), "GITHUB_OUTPUT": str(tmp_path / "o")}
    arguments = ("gate", "--run", run, "--baseline", baseline)
    done = agentbench(*arguments, cwd=tmp_path, GITHUB_ACTIONS="true", **files)
    assert done.code == 1
    assert done.out.startswith("::error title=echo/3@0%3Atest%3A regressed::")
    assert "verdict=regressed\n" in (tmp_path / "o").read_text()
    assert "| echo/3@0:test |" in (tmp_path / "s.md").read_text()
    assert "report=" not in (tmp_path / "o").read_text()
    quiet = agentbench(*arguments, "--json", cwd=tmp_path, GITHUB_ACTIONS="true")
    assert [event["event"] for event in quiet.events] == ["judged", "done"]
    assert agentbench(*arguments, cwd=tmp_path).out == ""


def test_a_threshold_and_a_page_are_told_to_github_too(tmp_path: Path, baseline: Path) -> None:
    run, page = write_run(tmp_path / "after", wins(80)), tmp_path / "page.html"
    options = ("--fail-under", "success=0.9", "--report", page, "--junit", tmp_path / "j.xml")
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(tmp_path / "o")}
    done = agentbench("gate", "--run", run, "--baseline", baseline, *options, cwd=tmp_path, **variables)
    assert done.code == 1 and done.out.startswith("::error title=echo/3@0%3Atest%3A ok%2C but under a threshold")
    told = (tmp_path / "o").read_text()
    assert "verdict=failed\n" in told and f"report={page}\n" in told and page.exists()
    assert '<property name="verdict" value="failed"' in (tmp_path / "j.xml").read_text()


def test_an_update_keeps_the_other_environments(tmp_path: Path, baseline: Path) -> None:
    other = write_run(tmp_path / "other", wins(10), env="echo/1@0")
    assert agentbench("gate", "--run", other, "--baseline", baseline, "--update-baseline", cwd=tmp_path).code == 0
    assert sorted(json.loads(baseline.read_text())["environments"]) == ["echo/1@0:test", "echo/3@0:test"]


def test_an_update_that_stays_under_a_threshold_writes_nothing(tmp_path: Path, baseline: Path) -> None:
    before = baseline.read_bytes()
    run = write_run(tmp_path / "after", wins(60))
    arguments = ("--run", run, "--baseline", baseline, "--update-baseline", "--fail-under", "success=0.7")
    assert agentbench("gate", *arguments, cwd=tmp_path).code == 1
    assert baseline.read_bytes() == before


def test_mistakes_get_one_clear_line(tmp_path: Path, baseline: Path) -> None:
    run = write_run(tmp_path / "after", wins(80))
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = write_run(tmp_path / "broken", wins(3))
    (broken / "lock.json").unlink()
    edited = tmp_path / "edited.json"
    edited.write_text(baseline.read_text().replace('"1/1"', '"0/1"', 1))
    nothing = tmp_path / "nothing.json"
    write_baseline(nothing, {})
    judge = ("gate", "--run", run, "--baseline", baseline)
    for arguments, code, word in (
        (("gate", "--run", run), 2, "--baseline"),
        (("gate", "--run", run, "--baseline", "none.json"), 2, "--update-baseline"),
        (("gate", "--run", empty, "--baseline", baseline), 2, "no run directory"),
        (("gate", "--run", broken, "--baseline", baseline), 3, "damaged"),
        (("gate", "--run", run, "--baseline", edited), 7, "changed"),
        (("gate", "--run", run, "--baseline", nothing), 2, "holds no environment"),
        ((*judge, "--report", "page.pdf"), 2, "--report"),
        (("gate", "--run", run, "--run", run, "--baseline", baseline), 2, "both"),
        (("gate", "--baseline", baseline, "--model", "oracle", "--env", "nowhere"), 2, "nowhere"),
        ((*judge, "--inconclusive", "perhaps"), 2, "perhaps"),
        ((*judge, "--fail-under", "success"), 2, "METRIC=VALUE"),
        ((*judge, "--fail-under", "glory=1"), 2, "glory"),
        *(((*judge, f"--margin={margin}"), 2, "--margin") for margin in ("0", "-1", "inf", "nan")),
        *(((*judge, "--alpha", alpha), 2, "--alpha") for alpha in ("0.5", "0", "1e-20", "nan")),
        ((*judge, "--junit", tmp_path / "no" / "j.xml"), 3, "cannot write"),
        (("gate", "--update-baseline", "--run", run), 2, "--baseline FILE"),
    ):
        done = agentbench(*arguments, cwd=tmp_path)
        last = done._replace(err=done.err.splitlines()[-1]) if code == 3 and word == "cannot write" else done
        assert_one_clear_line(last, code, word)
