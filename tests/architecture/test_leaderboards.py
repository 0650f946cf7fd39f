"""The leaderboards of the repository are what they say: every table fresh, every row played again."""

from pathlib import Path

import pytest

from agentbench.report.boards import stale_files
from agentbench.report.leaderboard import Board, boards, strays, verify

ROOT = Path(__file__).parents[2] / "leaderboards"
BOARDS = boards(ROOT)


def test_tables_are_fresh() -> None:
    assert [str(path) for path in stale_files(ROOT)] == [], "run `make docs`"


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_no_bundle_is_left_over(board: Board) -> None:
    assert list(strays(board)) == []


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_row_is_what_it_says(board: Board, scale: float) -> None:
    found = list(verify(board, board.measured, limit=round(50 * scale)))
    assert [verdict for verdict in found if verdict.difference or verdict.skipped] == []
    assert all(
        verdict.replayed or row.trust == "recomputed" for verdict, row in zip(found, board.measured, strict=True)
    )


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_board_has_its_floors_and_its_ceiling(board: Board) -> None:
    panels = {row.panel for row in board.measured}
    assert panels, "a board of reported numbers alone has nothing to hold them against"
    for panel in panels:
        names = {row.policy for row in board.measured if row.panel == panel}
        assert {"random", "nop", "oracle"} <= names, f"{board.name}, panel {panel}"


def test_what_is_reported_has_a_source_and_a_protocol() -> None:
    for board in BOARDS:
        for row in board.reported:
            assert row.source.link.startswith("https://") and row.source.place and row.protocol and row.caveat
