"""The rules are the original's: episodes recorded from gym-sokoban replay exactly."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agentbench_envs.sokoban.game import Sokoban
from agentbench_envs.sokoban.levels import parse

from agentbench.core.errors import UsageError


def recorded(golden: Path, name: str) -> Any:
    with gzip.open(golden / "environments" / name, "rt", encoding="utf-8") as file:
        return json.load(file)


def test_recorded_episodes_replay_exactly(golden: Path) -> None:
    episodes = recorded(golden, "sokoban_episodes.json.gz")["episodes"]
    assert len(episodes) >= 100
    for episode in episodes:
        game = Sokoban(episode["room_fixed"], episode["room_state"], max_steps=episode["max_steps"])
        assert game.level.text == episode["text"]
        for step in episode["steps"]:
            assert game.act(step["a"]) == (step["r"], step["done"])
            seen = (game.moved_player, game.moved_box, list(game.player_position), game.boxes_on_target)
            assert seen == (step["moved_player"], step["moved_box"], step["player"], step["boxes_on_target"])
        final = episode["final"]
        assert game.room_state.tolist() == final["room_state"]
        assert game.room_fixed.tolist() == episode["room_fixed"]
        assert (game.level.text, game.steps) == (final["text"], final["num_env_steps"])


def level_game(xsb: str, max_steps: int = 50) -> Sokoban:
    return Sokoban.of(parse(xsb), max_steps=max_steps)


def test_a_push_that_fails_is_no_move_and_a_move_never_pushes() -> None:
    game = level_game("#######\n#@$$..#\n#######")
    assert game.act(4) == (-0.1, False)
    assert not game.moved_player
    game = level_game("######\n#@$ .#\n######")
    assert game.act(8) == (-0.1, False)
    assert not game.moved_player
    assert game.act(4) == (-0.1, False)
    assert game.moved_box


def test_rewards_are_the_originals_floats() -> None:
    game = level_game("########\n#@ $. .#\n#   $  #\n########")
    assert [game.act(4)[0] for _ in range(3)] == [-0.1, 0.9, -1.1]
    game = level_game("#####\n#@$.#\n#####")
    assert game.act(4) == (10.9, True)


def test_the_player_may_stand_on_a_target_and_uncovers_it_again() -> None:
    game = level_game("######\n#+ $.#\n# $  #\n######")
    assert game.room_fixed[1, 1] == 2
    assert game.room_state[1, 1] == 5
    game.act(2)
    assert game.room_state[1, 1] == 2


def test_the_game_ends_with_the_last_step_and_counts_idle_steps() -> None:
    game = level_game("######\n#@ $.#\n######", max_steps=2)
    assert [game.act(0), game.act(0)] == [(-0.1, False), (-0.1, True)]


def test_an_unknown_action_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected 0 to 8"):
        level_game("######\n#@ $.#\n######").act(9)


def test_arrays_that_contradict_each_other_are_refused() -> None:
    level = parse("######\n#@ $.#\n######")
    wrong = level.room_fixed
    wrong[1, 2] = 2
    with pytest.raises(UsageError, match="disagree"):
        Sokoban(wrong, level.room_state, max_steps=9)
    with pytest.raises(UsageError, match="two equal grids"):
        Sokoban(np.zeros((3, 3)), np.zeros((3, 4)), max_steps=9)
