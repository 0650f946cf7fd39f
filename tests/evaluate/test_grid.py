"""A grid is one command, one folder and one table, and goes on where it stopped."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import IntegrityError, PrerequisiteError, UsageError
from agentbench.core.records import RunDirectory
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.evaluate.grid import Grid, expand, is_grid, play_grid
from tests.cli.command import agentbench, assert_one_clear_line

ENV = "sokoban/6x6*,sokoban/easy:valid"


def config_of(out: Path, **more: Any) -> EvalConfig:
    return EvalConfig.parse({"model": "random", "env": ENV, "episodes": 4, "out": str(out), **more})


def play(config: EvalConfig, run: Path | None) -> object:
    return evaluate(config, resume=run)


def test_a_pattern_names_the_variants_that_fit_once_and_in_order() -> None:
    assert expand("sokoban/6x6*,sokoban/easy:valid,sokoban/6x6-1") == [
        "sokoban/6x6-1@0:test",
        "sokoban/6x6-2@0:test",
        "sokoban/easy@0:valid",
    ]
    assert expand("sokoban/[78]x?-2:train") == ["sokoban/7x7-2@0:train", "sokoban/8x8-2@0:train"]


@pytest.mark.parametrize("env", ["sokoban", "sokoban/6x6-1@0:test", "./guess.py/small"])
def test_a_name_without_a_pattern_is_no_grid(env: str) -> None:
    assert not is_grid(env)


@pytest.mark.parametrize(("env", "said"), [("sokoban/9*", "no variant fits"), ("chess/*", "no variant fits")])
def test_a_pattern_that_fits_nothing_is_refused(env: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        expand(env)


def test_files_stand_in_a_grid_too(words: Path) -> None:
    assert expand(f"{words}/five,{words}/slow") == [f"{words}/five:test", f"{words}/slow:test"]


def test_a_grid_goes_on_where_it_stopped(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    grid = Grid.create(config)
    play_grid(grid, config, play)
    before = {cell.env: cell for cell in grid.cells()}
    assert list(before) == expand(ENV)
    assert all(cell.complete for cell in before.values())
    lost, torn = "sokoban/easy@0:valid", "sokoban/6x6-2@0:test"
    kept = {env: RunDirectory.open(cell.run).rows() for env, cell in before.items() if cell.run}
    shutil.rmtree(before[lost].run or "")
    state = RunDirectory.open(before[torn].run or Path()).state
    with RunDirectory.open(before[torn].run or Path()).writing() as writer:
        writer.write_state(**{**state, "status": "cancelled"})
    again = Grid.open(grid.path, config)
    assert [cell.env for cell in again.cells() if not cell.complete] == [torn, lost]
    play_grid(again, config, play)
    after = {cell.env: cell for cell in again.cells()}
    assert all(cell.complete for cell in after.values())
    assert after[torn].run == before[torn].run, "a run that was begun is gone on with"
    hashes = {env: [row["hash"] for row in RunDirectory.open(cell.run or Path()).rows()] for env, cell in after.items()}
    assert {env: sorted(rows) for env, rows in hashes.items()} == {
        env: sorted(row["hash"] for row in rows) for env, rows in kept.items()
    }


def test_a_grid_is_resumed_only_as_it_began(tmp_path: Path) -> None:
    grid = Grid.create(config_of(tmp_path))
    with pytest.raises(UsageError, match="episodes was 4, is 5"):
        Grid.open(grid.path, config_of(tmp_path, episodes=5))
    (grid.path / "grid.json").write_text("{")
    with pytest.raises(IntegrityError, match=r"grid\.json"):
        Grid.open(grid.path, config_of(tmp_path))


def test_what_one_cell_needs_is_missed_before_the_first_episode(tmp_path: Path, words: Path) -> None:
    with pytest.raises(PrerequisiteError, match="a thing nobody has"):
        Grid.create(config_of(tmp_path / "runs", env=f"{words}/five,{words}/docker"))
    assert not (tmp_path / "runs").exists()


def test_the_command_plays_a_grid_and_resumes_it(tmp_path: Path) -> None:
    done = agentbench("eval", "-m", "random", "-e", ENV, "-n", 3, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    cells = [event for event in done.events if event["event"] == "cell"]
    assert [cell["env"] for cell in cells] == expand(ENV)
    assert all(cell["complete"] and cell["summary"]["planned"] == 3 for cell in cells)
    (grid,) = (tmp_path / "runs").iterdir()
    again = agentbench("eval", "--resume", grid, "--json", cwd=tmp_path)
    assert again.code == 0
    seen = [event["summary"] for event in again.events]
    assert seen == [cell["summary"] for cell in cells], "something was played again"
    refused = agentbench("eval", "-m", "random", "-e", "sokoban/9*", cwd=tmp_path)
    assert_one_clear_line(refused, 2, "no variant fits 'sokoban/9*'")
