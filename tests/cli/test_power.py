"""`agentbench power`, as a user runs it."""

from pathlib import Path

import pytest

from tests.cli.command import agentbench, assert_one_clear_line
from tests.evaluate.simulated import draw, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path, draw(0, 40, 2)[0])


def test_people_get_tables(run: Path, tmp_path: Path) -> None:
    done = agentbench("power", run, "--delta", "0.2", cwd=tmp_path)
    assert done.code == 0, done
    assert done.out == ""
    for words in ("40 tasks", "between tasks", "within a task", "loss of 0.2 with 80 % power", "Fewest episodes: "):
        assert words in done.err


def test_programs_get_lines(run: Path, tmp_path: Path) -> None:
    done = agentbench("power", run, "--delta", "0.2", "--power", "0.9", "--json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    *events, last = done.events
    sizes = [event for event in events if event["event"] == "size"]
    assert [size["trials"] for size in sizes] == [1, 2, 4, 8]
    assert {event["event"] for event in events} == {"size", "chance"}
    assert last["event"] == "done"
    assert (last["delta"], last["power"], last["baseline"]["tasks"]) == (0.2, 0.9, 40)
    fewest = min(sizes, key=lambda size: int(size["episodes"]))
    assert (last["tasks"], last["trials"], last["episodes"]) == (
        fewest["tasks_whole"],
        fewest["trials"],
        fewest["episodes"],
    )


def test_a_baseline_of_single_trials_is_told_what_it_lacks(tmp_path: Path) -> None:
    done = agentbench("power", write_run(tmp_path, draw(0, 40, 1)[0]), cwd=tmp_path)
    assert done.code == 0, done
    assert "--trials 2" in done.err


def test_mistakes_get_one_line(run: Path, tmp_path: Path) -> None:
    assert_one_clear_line(agentbench("power", tmp_path / "nowhere", cwd=tmp_path), 2, "no run directory")
    assert_one_clear_line(agentbench("power", run, "--delta", "-1", cwd=tmp_path), 2, "--delta", "positive")
    assert_one_clear_line(agentbench("power", run, "--metric", "joy", cwd=tmp_path), 2, "'joy'", "success")
    assert_one_clear_line(agentbench("power", write_run(tmp_path, [[None]]), cwd=tmp_path), 3, "no scored episode")
    (run / "episodes.jsonl").write_text("what\n")
    assert_one_clear_line(agentbench("power", run, cwd=tmp_path), 3, "damaged")
