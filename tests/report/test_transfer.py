"""The transfer matrix: who is a row, what is a column, and when there is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.records import write_json
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.report.report import write_report
from agentbench.report.runs import Evaluation, read_runs
from agentbench.report.transfer import transfer, transfer_chapters


def played(out: Path, model: str, env: str, **more: Any) -> Path:
    values = {"model": model, "env": env, "episodes": 4, "out": str(out), **more}
    return evaluate(EvalConfig.parse(values)).run_dir


def called(run: Path, model: Path) -> Path:
    """Let a run say that it evaluated the checkpoint at a path."""
    state = json.loads((run / "run.json").read_text())
    state["config"]["model"] = str(model)
    write_json(run / "run.json", state)
    return run


def read(*paths: Path) -> list[Evaluation]:
    return [run for run in read_runs(paths) if isinstance(run, Evaluation)]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two policies on two panels."""
    pairs = [(model, env) for model in ("random", "oracle") for env in ("sokoban/6x6-1", "sokoban/6x6-2")]
    return [played(tmp_path, model, env) for model, env in pairs]


def test_policies_are_rows_and_panels_are_columns(runs: list[Path]) -> None:
    matrix = transfer(read(*runs))
    assert matrix is not None
    assert matrix.policies == ["random", "oracle"]
    assert matrix.panels == ["sokoban/6x6-1", "sokoban/6x6-2"]
    assert matrix.summaries["oracle", "sokoban/6x6-2"]["success"] == 1.0
    assert len(matrix.summaries) == 4


def test_a_checkpoint_is_called_by_what_it_was_trained_on(runs: list[Path], tmp_path: Path) -> None:
    trained = tmp_path / "training"
    config = {"env": "sokoban/6x6-1", "env_args": {"boxes": 3, "rows": 6}}
    (trained / "checkpoints" / "best").mkdir(parents=True)
    write_json(trained / "run.json", {"kind": "train", "config": config})
    for run in runs[:2]:
        called(run, trained / "checkpoints" / "best")
    matrix = transfer(read(*runs))
    assert matrix is not None
    assert matrix.policies == ["sokoban/6x6-1 boxes=3", "oracle"], "arguments that the variant has anyway are not said"


def test_two_checkpoints_of_one_kind_are_two_rows(runs: list[Path], tmp_path: Path) -> None:
    for number, run in enumerate(runs):
        folder = tmp_path / f"training-{number // 2}"
        folder.mkdir(exist_ok=True)
        write_json(folder / "run.json", {"kind": "train", "config": {"env": "sokoban/tiny"}})
        called(run, folder / "last")
    matrix = transfer(read(*runs))
    assert matrix is not None
    assert matrix.policies == ["sokoban/tiny", "sokoban/tiny (2)"]


def test_other_tasks_or_another_turn_cap_are_another_column(runs: list[Path], tmp_path: Path) -> None:
    other = [played(tmp_path, "random", "sokoban/6x6-1", max_turns=3), played(tmp_path, "random", "sokoban/tiny")]
    matrix = transfer(read(*runs, *other))
    assert matrix is not None
    assert list(matrix.panels) == ["sokoban/6x6-1", "sokoban/6x6-2"], "columns that one policy played are left out"
    assert transfer(read(runs[0], other[0])) is None
    assert transfer(read(runs[0], runs[2])) is None


def test_a_gap_in_the_matrix_stays_a_gap(runs: list[Path], tmp_path: Path) -> None:
    third = [played(tmp_path, model, "sokoban/easy") for model in ("random", "nop")]
    (chapter,) = transfer_chapters(read(*runs, *third, played(tmp_path, "nop", "sokoban/6x6-1")))
    table, figure = chapter.blocks[1:]
    assert [row[0] for row in table.rows] == ["random", "oracle", "nop"]  # type: ignore[union-attr]
    assert [value is None for value in table.rows[1]] == [False, False, False, True]  # type: ignore[union-attr]
    assert "oracle on sokoban/6x6-2 100 %" in figure.alt  # type: ignore[union-attr]
    assert "oracle on sokoban/easy" not in figure.alt  # type: ignore[union-attr]


def test_a_report_of_a_grid_shows_the_matrix(runs: list[Path], tmp_path: Path) -> None:
    written = write_report(runs, tmp_path / "report.html")
    text = written.markdown.read_text()
    assert "## Transfer" in text
    assert any(figure.name == "transfer.png" for figure in written.figures)
    assert "## Transfer" not in write_report(runs[:2], tmp_path / "one.html").markdown.read_text()
