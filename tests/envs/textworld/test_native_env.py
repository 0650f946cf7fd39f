"""Playing: rewards are changes of the score, losing is not winning, nothing that happened goes unsaid."""

import json
import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.textworld import ENTRY
from agentbench_envs.textworld.env import TextWorldEnv
from agentbench_envs.textworld.generate import draw
from agentbench_envs.textworld.text import UNKNOWN

from agentbench.core.env import Env
from agentbench.core.errors import UsageError
from agentbench.core.registry import resolve

NATIVE = [name for name, variant in ENTRY.variants.items() if variant.entry_point is None]


def native(name: str, **kwargs: Any) -> Env:
    return resolve(f"textworld/{name}", **kwargs).make()


@pytest.mark.parametrize("variant", ["simple-dense", "simple-balanced", "cooking-1", "w4-o6-q8"])
def test_rewards_are_changes_of_the_score_and_add_up_to_it(variant: str) -> None:
    env = native(variant)
    _, info = env.reset(seed=0)
    total = 0.0
    for action in env.oracle():
        step = env.step(action)
        total += step.reward
        assert step.info["score"] == total
    assert total == step.info["max_score"]
    assert info["max_score"] == total


def test_losing_ends_the_game_without_success() -> None:
    env = native("simple-dense")
    env.reset(seed=0)
    food = next(action for action in env.oracle() if action.startswith("take") and "key" not in action).split(" from ")[
        0
    ]
    for action in env.oracle():
        step = env.step(action)
        if action.startswith(food):
            break
    step = env.step(food.replace("take", "eat"))
    assert step.terminated and step.info["success"] is False
    assert step.info["terms"]["lost"] == 1.0 and step.reward == 0.0
    assert "You have lost" in step.observation and "You eat" in step.observation


@pytest.mark.parametrize("variant", ["w3-o5-q5", "simple-dense", "coin-8", "cooking-3"])
def test_what_an_action_did_stands_before_score_and_end(variant: str) -> None:
    env = native(variant, show_admissible=True)
    env.reset(seed=1)
    for action in env.oracle():
        step = env.step(action)
        told = step.observation.split("\n\n")[0]
        assert told and not told.startswith(("Your score", "***", "Possible"))
    assert "Your score has changed" in step.observation and "*** You have won ***" in step.observation


def test_goals_are_told_in_the_detail_asked_for() -> None:
    goals = {}
    for detail in ("none", "brief", "detailed"):
        goals[detail] = native("w4-o6-q8", goal=detail).reset(seed=2)[1]["goal"]
    assert goals["none"] == ""
    assert goals["detailed"].startswith(goals["brief"]) and "; then " in goals["detailed"]


def test_possible_commands_are_shown_where_asked_for() -> None:
    env = native("w2-o3-q4", show_admissible=True)
    observation, info = env.reset(seed=0)
    assert observation.endswith(f"Possible: {', '.join(info['admissible'])}.")
    assert "Possible:" not in native("w2-o3-q4").reset(seed=0)[0]


def test_what_makes_no_sense_changes_nothing_and_is_marked() -> None:
    env = native("w2-o3-q4")
    _, before = env.reset(seed=0)
    step = env.step("sing a song")
    assert step.observation == UNKNOWN and step.info["valid"] is False and step.reward == 0.0
    assert step.info["anchor"] == before["anchor"]


def test_the_potential_rises_along_the_oracles_plan() -> None:
    env = native("w4-o6-q8")
    _, info = env.reset(seed=0)
    potentials = [info["potential"]]
    for action in env.oracle():
        step = env.step(action)
        potentials.append(step.info["potential"])
        assert step.info["terms"]["progress"] == 1.0
    assert potentials == pytest.approx([-1 + k / 8 for k in range(9)])


def test_equal_states_have_equal_anchors() -> None:
    env = native("coin-8")
    _, first = env.reset(seed=0)
    way = env.oracle()[0]
    back = {"north": "south", "south": "north", "east": "west", "west": "east"}[way.split()[1]]
    away = env.step(way)
    home = env.step(f"go {back}")
    assert home.info["anchor"] == first["anchor"] != away.info["anchor"]


@pytest.mark.parametrize("variant", NATIVE)
def test_the_oracle_wins(variant: str, scale: float) -> None:
    resolved = resolve(f"textworld/{variant}:test")
    env = resolved.make()
    for seed in range(min(round(25 * scale), env.task_count or 10**9)):
        env.reset(seed=10_000 + seed if env.task_count is None else seed)
        plan = env.oracle()
        assert len(plan) <= resolved.max_turns
        for action in plan:
            step = env.step(action)
        assert step.info["success"] is True


def test_games_of_the_original_are_played_from_a_folder(tmp_path: Path, golden: Path) -> None:
    with tarfile.open(golden / "environments" / "textworld_games.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    env = TextWorldEnv(games=str(tmp_path))
    assert env.task_count == len(list(tmp_path.glob("*.json")))
    for seed in range(env.task_count):
        _, info = env.reset(seed=seed)
        assert (
            info["goal"] == json.loads(sorted(tmp_path.glob("*.json"))[seed].read_text(encoding="utf-8"))["objective"]
        )
        for action in env.oracle():
            step = env.step(action)
        assert step.info["success"] is True


@pytest.mark.parametrize("events", ["win_events", "fail_events"])
def test_a_game_that_is_over_before_it_begins_is_refused(tmp_path: Path, golden: Path, events: str) -> None:
    with tarfile.open(golden / "environments" / "textworld_games.tar.gz") as archive:
        archive.extract("coin_5.json", tmp_path, filter="data")
    path = tmp_path / "coin_5.json"
    game = json.loads(path.read_text(encoding="utf-8"))
    game["quests"][0][events] = [{"condition": {"preconditions": [game["world"][0]]}}]
    path.write_text(json.dumps(game), encoding="utf-8")
    with pytest.raises(UsageError, match=r"coin_5\.json cannot be played: the game is over"):
        TextWorldEnv(games=str(tmp_path)).reset(seed=0)


def test_a_folder_without_games_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \.json file"):
        TextWorldEnv(games=str(tmp_path))


def episode(seed: int) -> list[object]:
    """Play random commands; return everything that was seen."""
    env = native("w3-o5-q5", split="train")
    record: list[object] = [env.reset(seed=seed)]
    for _ in range(12):
        step = env.step(env.random_action())
        record.append(step)
        if step.terminated:
            break
    return record


def test_an_episode_is_the_same_in_32_threads_and_in_another_process() -> None:
    serial = [episode(seed) for seed in range(8)]
    draw.cache_clear()
    with ThreadPoolExecutor(32) as threads:
        assert list(threads.map(episode, list(range(8)) * 4)) == serial * 4
    code = "from tests.envs.textworld.test_native_env import episode; print([repr(episode(s)) for s in range(8)])"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr([repr(record) for record in serial])
