"""`agentbench compare` as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.cli.command import agentbench, assert_one_clear_line
from tests.evaluate.simulated import Outcome, write_run

NUMBERS = {"verdict", "delta", "low", "high", "p_value", "mde"}


def wins(count: int, tasks: int = 60) -> list[list[Outcome]]:
    return [[task < count] for task in range(tasks)]


@pytest.mark.parametrize(("count", "verdict"), [(50, "better"), (10, "worse"), (29, "no difference")])
def test_the_last_line_is_the_answer(tmp_path: Path, count: int, verdict: str) -> None:
    a, b = write_run(tmp_path, wins(30), policy="a"), write_run(tmp_path, wins(count), policy="b")
    done = agentbench("compare", a, b, "--json", cwd=tmp_path)
    assert done.code == 0, done
    last = done.events[-1]
    assert set(last) >= NUMBERS
    assert last["verdict"] == verdict
    assert last["delta"] == pytest.approx((count - 30) / 60)
    assert last["low"] <= last["delta"] <= last["high"]


def test_what_is_not_comparable_is_refused_by_field(tmp_path: Path) -> None:
    a = write_run(tmp_path, wins(3))
    b = write_run(tmp_path, wins(3), policy="b", instructions="sing", context={"mode": "full", "format": "tagged"})
    done = agentbench("compare", a, b, "--json", cwd=tmp_path)
    assert done.code == 2
    assert done.events[-1]["verdict"] == "not comparable"
    assert done.events[-1]["fields"] == ["context.format", "instructions"]
    assert set(done.events[-1]) >= NUMBERS and done.events[-1]["delta"] is None
    assert "context.format (plain, tagged)" in done.err.splitlines()[-1]


def test_of_three_the_one_that_is_not_comparable_is_left_out(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, wins(30, tasks), policy=name) for name, tasks in (("a", 60), ("b", 60), ("c", 61))]
    done = agentbench("compare", *runs, "--json", cwd=tmp_path)
    assert done.code == 0
    assert [event["verdict"] for event in done.events] == ["no difference", "not comparable"]


def test_files_are_written_by_their_ending(tmp_path: Path) -> None:
    a, b = write_run(tmp_path, wins(30), policy="<i>a</i>"), write_run(tmp_path, wins(50), policy="b|b")
    files = [option for name in ("c.html", "c.md", "c.json") for option in ("-o", tmp_path / name)]
    done = agentbench("compare", a, b, *files, cwd=tmp_path)
    assert done.code == 0, done
    page, text = (tmp_path / "c.html").read_text(), (tmp_path / "c.md").read_text()
    assert "<i>" not in page and "&lt;i&gt;a" in page
    assert "b\\|b" in text and (tmp_path / "c-figures" / "changes.svg").exists()
    assert json.loads((tmp_path / "c.json").read_text())[0]["verdict"] == "better"


def test_runs_in_folders_of_one_name_are_sides_of_their_own(tmp_path: Path) -> None:
    for folder, won in (("before", 10), ("after", 1), ("later", 10)):
        (tmp_path / folder).mkdir()
        write_run(tmp_path, wins(won, 12)).rename(tmp_path / folder / "run")
    done = agentbench("compare", "before/run", "after/run", "later/run", "--json", cwd=tmp_path)
    assert [event["b"] for event in done.events] == ["model (after/run)", "model (later/run)"]
    assert [event["verdict"] for event in done.events] == ["worse", "no difference"]


def test_a_run_and_itself_do_not_differ(tmp_path: Path) -> None:
    run = write_run(tmp_path, wins(10, 6))
    done = agentbench("compare", run, run, "--json", cwd=tmp_path)
    assert (done.code, done.events[-1]["verdict"], done.events[-1]["p_value"]) == (0, "no difference", 1.0)


def test_where_two_runs_part_stands_with_the_one_that_was_compared(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, wins(6, tasks)) for tasks in (10, 10, 7)]
    compared, refused = agentbench("compare", *runs, "--json", cwd=tmp_path).events
    assert (compared["identical"], refused["verdict"]) == (10, "not comparable")
    assert "identical" not in refused


def test_mistakes_get_one_clear_line(tmp_path: Path) -> None:
    run = write_run(tmp_path, wins(3))
    broken = write_run(tmp_path, wins(3))
    (broken / "episodes.jsonl").write_text("{}\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "run.json").write_text("{}")
    for arguments, code, word in (
        ((f"a={run}", f"a={run}", run), 2, "twice"),
        ((run,), 2, "two runs"),
        ((run, tmp_path / "none"), 2, "no run directory"),
        ((run, broken), 3, "damaged"),
        ((run, empty), 3, "damaged"),
        ((run, broken, "--metric", "glory"), 2, "glory"),
        ((run, broken, "-o", "page.pdf"), 2, ".html"),
        *(((run, broken, "--alpha", alpha), 2, "--alpha") for alpha in ("2", "0", "1e-20", "nan")),
    ):
        assert_one_clear_line(agentbench("compare", *arguments, cwd=tmp_path), code, word)
