"""Levels survive being written and read, and are the same under the symmetries of the square."""

from pathlib import Path

import numpy as np
import pytest
from agentbench_envs.sokoban.levels import Level, content_hash, parse, read_levels, split_of
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import UsageError
from tests.envs.sokoban.reference import small_levels

XSB = """\
#######
#@ $. #
#  *  #
# $ . #
#######"""


def turned(level: Level, turn: int, mirror: bool) -> Level:
    grid = np.rot90(level.grid, turn)
    return Level.from_grid(grid.T if mirror else grid)


@given(small_levels(boxes=3))
def test_a_level_survives_writing_and_reading(level: Level) -> None:
    assert parse(level.xsb) == level
    assert parse(level.text) == level
    assert Level.from_room(level.room_fixed, level.room_state) == level


def test_both_alphabets_are_understood() -> None:
    level = parse(XSB)
    assert level.xsb == XSB
    assert level.text == "#######\n#P_XO_#\n#__√__#\n#_X_O_#\n#######"
    assert parse(XSB.replace(" ", "-")) == parse(XSB.replace(" ", "_")) == level


def test_ragged_lines_and_surrounding_blanks_are_filled() -> None:
    assert parse("\n  ####\r\n###@ #\n# $ .#\n######\n\n").xsb == "######\n###@ #\n# $ .#\n######"


def test_the_remarks_of_a_collection_are_no_part_of_a_level() -> None:
    assert parse(f"; 7\n\n{XSB}\n") == parse(XSB)
    assert parse(f"Title: Four corners\r\n{XSB}\n\nAuthor: N. N.\n; the end") == parse(XSB)


@pytest.mark.parametrize(
    ("xsb", "complaint"),
    [
        ("", "empty text"),
        ("#####\n# $.#\n#####", "found 0 players"),
        ("######\n#@@$.#\n######", "found 2 players"),
        ("#####\n#@  #\n#####", "no box"),
        ("######\n#@$$.#\n######", "found 2 boxes and 1 targets"),
        ("#####\n#@$.\n#####", "open border"),
        ("#####\n#@$.#\n#   #", "open border"),
        ("#####\n#@$.#\n## ##", "open border"),
        ("#####\n#@$?#\n#####", "unknown glyph '\\?' in line 2"),
        ("#" * 10_001, "at most 10000 cells"),
    ],
)
def test_what_is_no_level_is_refused_with_a_reason(xsb: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse(xsb)


@given(small_levels(), st.integers(0, 3), st.booleans(), st.integers(0, 2))
def test_symmetric_copies_are_one_level_and_one_split(level: Level, turn: int, mirror: bool, pad: int) -> None:
    copy = turned(level, turn, mirror)
    padded = Level.from_grid(np.pad(copy.grid, pad))
    assert content_hash(padded) == content_hash(level)
    assert split_of(padded.room_fixed) == split_of(level.room_fixed)


@given(small_levels(), small_levels())
def test_different_levels_have_different_hashes(one: Level, other: Level) -> None:
    copies = [turned(one, turn, mirror) for turn in range(4) for mirror in (False, True)]
    cores = {bare(copy) for copy in copies}
    assert (content_hash(one) == content_hash(other)) == (bare(other) in cores)


def bare(level: Level) -> str:
    grid = level.grid
    rows, columns = np.flatnonzero(grid.any(axis=1)), np.flatnonzero(grid.any(axis=0))
    return str(grid[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].tolist())


def test_splits_have_about_the_sizes_that_they_claim() -> None:
    rng = np.random.default_rng(0)
    splits = [split_of(rng.integers(0, 3, size=(6, 6))) for _ in range(2000)]
    assert 0.77 < splits.count("train") / 2000 < 0.83
    assert 0.08 < splits.count("valid") / 2000 < 0.12
    assert 0.08 < splits.count("test") / 2000 < 0.12


def test_a_folder_of_boxoban_files_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "001.txt").write_text(f"; 0\n{XSB}\n")
    (tmp_path / "000.txt").write_text("; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#@ $.#\n######\n")
    assert [level.stride for level in read_levels(tmp_path)] == [6, 7, 8]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "000.txt").write_text("; 0\n#####\n#@$.#\n#####\n\n; 1\n####\n#@ #\n####\n")
    with pytest.raises(UsageError, match=r"000\.txt, level 1: found no box"):
        list(read_levels(tmp_path))
    with pytest.raises(UsageError, match=r"found no \.txt file"):
        list(read_levels(tmp_path / "absent"))
