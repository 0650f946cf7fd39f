"""Where two runs of one task part ways."""

from pathlib import Path

import pytest

from agentbench.core.errors import RunInvalid
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.parting import part
from tests.evaluate.simulated import Outcome, write_run

WON: list[list[Outcome]] = [[True], [True]]


def run_of(folder: Path, outcomes: list[list[Outcome]], first: str, second: str) -> Evidence:
    actions = {(0, 0): first.split(), (1, 0): second.split()}
    return Evidence.load(write_run(folder, outcomes, actions=actions))


def test_equal_runs_do_not_part(tmp_path: Path) -> None:
    found = part(run_of(tmp_path, WON, "up up", "down"), run_of(tmp_path, WON, "up up", "down"))
    assert (found.shared, found.identical, found.parted) == (2, 2, ())


def test_the_first_other_action_is_where_they_part(tmp_path: Path) -> None:
    found = part(run_of(tmp_path, WON, "up up left", "down"), run_of(tmp_path, WON, "up right left", "down"))
    assert found.identical == 1 and found.turns == {1: 1}
    parting = found.parted[0]
    assert (parting.turn, parting.what, parting.ours, parting.theirs) == (1, "action", "up", "right")
    assert parting.observation == "observation 1" and parting.won == (True, True)


def test_an_episode_that_goes_on_parts_where_the_other_ended(tmp_path: Path) -> None:
    lost: list[list[Outcome]] = [[False], [True]]
    ours, theirs = run_of(tmp_path, lost, "up", "down"), run_of(tmp_path, lost, "up left", "down")
    parting = part(ours, theirs).parted[0]
    assert parting.turn == 0 and parting.what == "environment"  # the end is part of the first one's last turn


def test_an_environment_that_answers_otherwise_is_named(tmp_path: Path) -> None:
    ours, theirs = run_of(tmp_path, WON, "up", "down"), run_of(tmp_path, [[False], [True]], "up", "down")
    parting = part(ours, theirs).parted[0]
    assert (parting.turn, parting.what, parting.won) == (0, "environment", (True, False))


def test_only_what_both_scored_is_looked_at(tmp_path: Path) -> None:
    broken: list[list[Outcome]] = [[None], [True]]
    found = part(run_of(tmp_path, WON, "up", "down"), run_of(tmp_path, broken, "up", "left"))
    assert found.shared == 1 and len(found.parted) == 1


def test_a_limit_is_told(tmp_path: Path) -> None:
    outcomes: list[list[Outcome]] = [[True]] * 10
    ours = Evidence.load(write_run(tmp_path, outcomes))
    theirs = Evidence.load(write_run(tmp_path, outcomes, actions={(task, 0): ["x"] for task in range(10)}))
    found = part(ours, theirs, limit=4)
    assert (found.shared, found.identical, found.read, len(found.parted)) == (10, 0, 4, 4)


def test_a_damaged_trajectory_is_one_clear_line(tmp_path: Path) -> None:
    ours, theirs = run_of(tmp_path, WON, "up", "down"), run_of(tmp_path, WON, "up", "left")
    (theirs.path / "trajectories" / "0000.jsonl.gz").write_bytes(b"nothing")
    with pytest.raises(RunInvalid, match="damaged"):
        part(ours, theirs)
