"""The solver finds the shortest solutions, and nothing is called lost that can be won."""

from typing import get_args

import pytest
from agentbench_envs.sokoban.board import FAR, board_of, cells_of
from agentbench_envs.sokoban.game import GenerationError, Sokoban, generate_room
from agentbench_envs.sokoban.levels import Level, parse
from agentbench_envs.sokoban.solver import Goal, SearchLimitError, Solution, solve
from hypothesis import given, settings

from agentbench.core.errors import Unsolvable
from tests.envs.sokoban.reference import fewest, small_levels

CORRIDOR = """
########
#      #
# #### #
#@$   .#
########
"""


def solution_of(level: Level, goal: Goal = "moves", weight: int = 1, limit: int = 100_000) -> Solution:
    board = board_of(level.fixed, level.stride)
    return solve(board, level.boxes, level.player, goal=goal, weight=weight, limit=limit)


def play(level: Level, solution: Solution) -> Sokoban:
    game = Sokoban.of(level, max_steps=10_000)
    pushes = 0
    for way in solution.directions:
        game.act(way + 1)
        assert game.moved_player
        pushes += game.moved_box
    assert pushes == solution.pushes
    return game


def assert_optimal(level: Level) -> None:
    moves, pushes = fewest(level, count_moves=True), fewest(level, count_moves=False)
    if moves is None:
        for goal in get_args(Goal):
            with pytest.raises(Unsolvable):
                solution_of(level, goal)
        return
    by_moves, by_pushes = solution_of(level), solution_of(level, "pushes")
    assert (len(by_moves.directions), by_pushes.pushes) == (moves, pushes)
    for solution in (by_moves, by_pushes):
        assert play(level, solution).boxes_on_target == level.boxes.bit_count()


@settings(max_examples=150, deadline=None)
@given(small_levels())
def test_small_levels_are_solved_optimally_or_proven_unsolvable(level: Level) -> None:
    assert_optimal(level)


def test_generated_levels_are_solved_optimally(scale: float) -> None:
    for seed in range(int(12 * scale)):
        try:
            assert_optimal(Level.from_room(*generate_room((6, 6), 2, 20, seed)))
        except GenerationError:
            continue


@settings(max_examples=300, deadline=None)
@given(small_levels(boxes=3))
def test_what_is_called_lost_cannot_be_won(level: Level) -> None:
    board = board_of(level.fixed, level.stride)
    frozen = any(board.freezes(level.boxes, cell) for cell in cells_of(level.boxes))
    if frozen or board.bound(level.boxes) >= FAR:
        assert fewest(level, count_moves=True) is None


@settings(max_examples=100, deadline=None)
@given(small_levels())
def test_the_bound_never_exceeds_the_pushes_needed(level: Level) -> None:
    pushes = fewest(level, count_moves=False)
    if pushes is not None:
        assert board_of(level.fixed, level.stride).bound(level.boxes) <= pushes


def test_two_boxes_side_by_side_along_a_wall_are_frozen() -> None:
    level = parse("#######\n# $$  #\n#@    #\n# . . #\n#######")
    board = board_of(level.fixed, level.stride)
    assert all(board.freezes(level.boxes, cell) for cell in cells_of(level.boxes))


def test_fewest_moves_and_fewest_pushes_are_told_apart() -> None:
    assert (len(solution_of(parse(CORRIDOR)).directions), solution_of(parse(CORRIDOR), "pushes").pushes) == (4, 4)


def test_giving_up_is_not_called_unsolvable() -> None:
    with pytest.raises(SearchLimitError):
        solution_of(Level.from_room(*generate_room((10, 10), 3, 34, 1)), limit=1)


def test_a_weighted_search_solves_but_claims_no_optimum() -> None:
    level = Level.from_room(*generate_room((7, 7), 2, 23, 3))
    quick, best = solution_of(level, weight=5), solution_of(level)
    assert play(level, quick).boxes_on_target == 2
    assert (quick.optimal, best.optimal) == (False, True)
    assert len(best.directions) <= len(quick.directions) <= 5 * len(best.directions)


def test_many_boxes_are_bounded_without_assigning_them() -> None:
    level = parse("#########\n#@      #\n# $$$$$ #\n# $   $ #\n#       #\n#.......#\n#########")
    assert solution_of(level, "pushes", weight=3).pushes >= board_of(level.fixed, level.stride).bound(level.boxes)
