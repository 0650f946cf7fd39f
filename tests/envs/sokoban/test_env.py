"""What the agent sees, may say, and is told in return."""

from typing import Any

import numpy as np
import pytest
from agentbench_envs.sokoban.env import SokobanEnv, moves_of

from agentbench.core.checks import hostile_actions
from agentbench.core.env import Step
from agentbench.core.errors import Unsolvable, UsageError

XSB = "#######\n#@$ . #\n#  $ .#\n#######"
ONE_PUSH = "#####\n#@$.#\n#####"


def started(level: str = XSB, **kwargs: Any) -> SokobanEnv:
    env = SokobanEnv(**kwargs)
    env.reset(seed=0, options={"level": level})
    return env


def test_hostile_actions_raise_nothing_and_leave_the_board_alone(scale: float) -> None:
    env = started()
    before = env.game.level
    for action in hostile_actions(int(1000 * scale)):
        step = env.step(action)
        assert not step.info["valid"]
        assert len(step.observation) < 500
        assert env.game.level == before


def test_the_observation_is_the_grid_with_legend_and_status() -> None:
    env = SokobanEnv(max_steps=9)
    observation, info = env.reset(seed=0, options={"level": XSB})
    legend, *grid, status = observation.split("\n")
    assert legend == "Legend: # wall, _ floor, O target, X box, √ box on target, P you, S you on a target."
    assert grid == ["#######", "#PX_O_#", "#__X_O#", "#######"]
    assert status == "Boxes on targets: 0 of 2. Moves left: 9."
    assert info["anchor"] == "\n".join(grid)
    assert (
        env.step("right").observation == "#######\n#_PXO_#\n#__X_O#\n#######\nBoxes on targets: 0 of 2. Moves left: 8."
    )


@pytest.mark.parametrize("reply", ["up", " UP ", "Up\n", "uP"])
def test_words_are_understood_in_any_case(reply: str) -> None:
    assert moves_of(reply) == (1,)


@pytest.mark.parametrize("reply", ["", "push up", "up right", "up,right", "up || ", "||", "u", "1", "up || jump"])
def test_anything_else_is_malformed_as_a_whole(reply: str) -> None:
    assert moves_of(reply) is None


def test_a_malformed_reply_costs_a_step_but_no_move() -> None:
    env = started()
    step = env.step("up || jump")
    assert (step.reward, step.terminated, step.truncated) == (-0.1, False, False)
    assert step.info["terms"] == {"malformed": 1.0}
    assert step.info["moves"] == 0
    assert step.observation.startswith("Found 'up || jump', expected up, down, left or right: one of them.")


def test_several_moves_are_played_in_order_up_to_the_cap() -> None:
    env = started(actions_per_turn=3)
    step = env.step("Right || right||RIGHT || left")
    assert env.game.player_position == (1, 4)
    assert step.observation.startswith("Only the first 3 moves of a reply are played.\n#######")
    assert step.info["terms"] == {"steps": 3.0, "onto": 1.0, "off": 1.0, "finished": 0.0}
    assert step.reward == pytest.approx(-0.3)


def test_a_variant_of_single_moves_plays_the_first() -> None:
    step = started().step("down || up")
    assert step.info["moves"] == 1
    assert "Only the first move of a reply is played.\n" in step.observation


def test_moves_after_the_winning_one_are_not_played() -> None:
    step = started(ONE_PUSH, actions_per_turn=5).step("right || left || left")
    assert (step.reward, step.terminated, step.info["success"], step.info["moves"]) == (10.9, True, True, 1)
    assert step.info["potential"] == 0.0


def test_the_last_move_cuts_off_unless_it_wins() -> None:
    assert started(max_steps=1).step("down")[2:4] == (False, True)
    assert started(ONE_PUSH, max_steps=1).step("right")[2:4] == (True, False)


def test_walking_against_a_wall_is_answered_and_costs_a_step() -> None:
    step = started().step("up")
    assert step.observation.startswith("Nothing moved.\n")
    assert (step.reward, step.info["valid"]) == (-0.1, True)


def test_a_box_against_the_wrong_wall_is_a_deadlock_and_the_lowest_potential() -> None:
    env = started("######\n#    #\n# $ .#\n# @  #\n######")
    assert not env.step("left").info["deadlock"]
    env.step("right")
    step = env.step("up")
    assert (step.info["deadlock"], step.info["potential"]) == (True, -1.0)
    with pytest.raises(Unsolvable):
        env.oracle()


def test_the_potential_rises_with_every_push_of_a_straight_solution() -> None:
    env = started("########\n#@$   .#\n########")
    potentials = [env.step("right").info["potential"] for _ in range(4)]
    assert potentials == sorted(potentials)
    assert potentials[-1] == 0.0


def test_certified_lengths_come_on_request() -> None:
    env = SokobanEnv()
    assert "optimal_moves" not in env.reset(seed=1)[1]
    _, info = env.reset(seed=1, options={"level": XSB, "certify": True})
    assert (info["optimal_moves"], info["optimal_pushes"]) == (len(env.oracle()), 4)


def test_the_oracle_speaks_whole_turns_and_knows_the_moves_that_are_left() -> None:
    env = started(actions_per_turn=4, max_steps=30)
    plan = env.oracle()
    assert all(turn.count("||") == 3 for turn in plan[:-1])
    assert [env.step(turn) for turn in plan][-1].terminated
    short = started(max_steps=3)
    with pytest.raises(Unsolvable, match="3 are left"):
        short.oracle()


def test_the_oracle_settles_for_a_longer_plan_and_gives_up_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    env = started()
    monkeypatch.setattr("agentbench_envs.sokoban.env.ORACLE_SEARCHES", ((1, 1), (5, 10_000)))
    assert [env.step(turn) for turn in env.oracle()][-1].terminated
    env = started()
    monkeypatch.setattr("agentbench_envs.sokoban.env.ORACLE_SEARCHES", ((1, 1),))
    with pytest.raises(Unsolvable, match="there may be one"):
        env.oracle()


def test_a_snapshot_holds_the_middle_of_an_episode() -> None:
    env, other = started(max_steps=9), SokobanEnv(max_steps=9)
    env.step("right")
    state = env.snapshot()
    there = play(env)
    other.restore(state)
    assert play(other) == there
    env.restore(state)
    assert play(env) == there


def play(env: SokobanEnv) -> list[Step]:
    return [env.step(word) for word in ("right", "down", "right", "nonsense", "up")]


def test_a_snapshot_is_small_and_plain() -> None:
    assert started().snapshot().isascii()
    assert len(started().snapshot()) < 200


def test_images_show_one_tile_per_cell() -> None:
    env = SokobanEnv(render_mode="rgb_array")
    env.reset(seed=0, options={"level": XSB})
    picture = env.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (64, 112, 3)
    assert picture.dtype == np.uint8
    tiles = [
        picture[16 * row : 16 * row + 16, 16 * column : 16 * column + 16] for row in (1, 2) for column in range(1, 6)
    ]
    assert len({tile.tobytes() for tile in tiles}) == 4
    assert np.array_equal(tiles[1], tiles[7])


def test_ansi_is_the_grid_and_no_mode_is_none() -> None:
    env = SokobanEnv(render_mode="ansi")
    env.reset(seed=0, options={"level": ONE_PUSH})
    assert env.render() == "#####\n#PXO#\n#####"
    assert started().render() is None


@pytest.mark.parametrize(
    ("kwargs", "complaint"),
    [
        ({"rows": 3}, "4 to 40 rows"),
        ({"boxes": 0}, "found 0 boxes"),
        ({"generator": "magic"}, "'ragen' or 'gym'"),
        ({"search_depth": 1}, "search_depth"),
        ({"min_moves": 9, "max_moves": 3}, "below min_moves"),
        ({"split": "all"}, "found split 'all'"),
        ({"max_steps": 0}, "at least 1"),
        ({"render_mode": "human"}, "render_mode"),
        ({"levels": "/nowhere"}, "no .txt file"),
    ],
)
def test_impossible_arguments_are_refused_with_a_reason(kwargs: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        SokobanEnv(**kwargs)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"leve": XSB}, "unknown option 'leve'"),
        ({"level": 3}, "type int"),
        ({"level": "#####\n#@*##\n#####"}, "solved"),
    ],
)
def test_impossible_options_are_refused_with_a_reason(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        SokobanEnv().reset(seed=0, options=options)
