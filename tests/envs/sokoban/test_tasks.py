"""Which level is played: decided by the seed, disjoint between splits, within the promised lengths."""

import json
import math
from pathlib import Path

import pytest
from agentbench_envs.sokoban import ENTRY
from agentbench_envs.sokoban.env import SokobanEnv
from agentbench_envs.sokoban.levels import canonical, content_hash, read_levels, split_of
from agentbench_envs.sokoban.tasks import draw_level

from agentbench.core.errors import UsageError
from agentbench.core.registry import resolve
from tests.benchmarks.sokoban_panels import CARD, COLLECTION, PANELS, card_with, certify, tables

SPLITS = ("train", "valid", "test")


def made(variant: str, split: str = "test") -> SokobanEnv:
    env = resolve(f"sokoban/{variant}", split=split).make()
    assert isinstance(env, SokobanEnv)
    return env


def test_the_seed_alone_decides_the_level() -> None:
    fresh = {seed: made("7x7-2").reset(seed=seed)[0] for seed in range(10)}
    draw_level.cache_clear()
    used = made("7x7-2")
    assert {seed: used.reset(seed=seed)[0] for seed in reversed(range(10))} == fresh


@pytest.mark.parametrize("variant", ["6x6-1", "easy", "8x8-2", "files"])
def test_no_level_and_no_room_is_in_two_splits(variant: str, scale: float) -> None:
    levels: dict[str, set[str]] = {}
    rooms: dict[str, set[bytes]] = {}
    for split in SPLITS:
        env = made(variant, split)
        for seed in range(int(100 * scale)):
            env.reset(seed=seed)
            levels.setdefault(split, set()).add(content_hash(env.game.level))
            rooms.setdefault(split, set()).add(canonical(env.game.room_fixed))
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not levels[one] & levels[other]
        assert not rooms[one] & rooms[other]


@pytest.mark.parametrize("variant", [name for name in ENTRY.variants if name != "gym"])
def test_the_oracle_wins_every_task_within_its_turns(variant: str, scale: float) -> None:
    env, turns = made(variant), resolve(f"sokoban/{variant}").max_turns
    for seed in range(int(20 * scale)):
        env.reset(seed=seed)
        plan = env.oracle()
        assert len(plan) <= turns
        assert [env.step(action) for action in plan][-1].info["success"]


@pytest.mark.parametrize("variant", [name for name in ENTRY.variants if name != "gym"])
def test_random_play_stays_under_the_cards_bound(variant: str, scale: float) -> None:
    bound = json.loads(PANELS.read_text())[variant]["random"]["bound"]
    env, turns, tasks = made(variant), resolve(f"sokoban/{variant}").max_turns, int(60 * scale)
    won = 0
    for seed in range(tasks):
        env.reset(seed=seed)
        for _ in range(turns):
            step = env.step(env.random_action())
            if step.terminated or step.truncated:
                won += step.terminated
                break
    assert won <= bound * tasks + 3 * math.sqrt(bound * (1 - bound) * tasks)


def test_optimal_lengths_stay_within_the_asked_bounds() -> None:
    env = SokobanEnv(min_moves=5, max_moves=8, max_steps=20, split="valid")
    for seed in range(20):
        _, info = env.reset(seed=seed, options={"certify": True})
        assert 5 <= info["optimal_moves"] <= 8


def test_settings_that_no_level_fits_end_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench_envs.sokoban.tasks.MOST_DRAWS", 20)
    with pytest.raises(UsageError, match="none of 20 rooms fits"):
        SokobanEnv(rows=4, cols=4, min_moves=30, max_steps=99).reset(seed=0)


def test_a_folder_is_a_list_of_tasks_taken_modulo_its_length() -> None:
    sizes = {split: made("files", split).task_count for split in (*SPLITS, "all")}
    levels = list(read_levels(COLLECTION.parent))
    assert sizes["all"] == len(levels) == 300
    assert sum(size or 0 for size in sizes.values()) == 600
    env = made("files", "test")
    count = env.task_count
    assert count is not None
    assert env.reset(seed=3)[0] == env.reset(seed=3 + count)[0]
    assert all(split_of(level.room_fixed) in SPLITS for level in levels)


def test_a_folder_without_levels_of_the_split_says_so(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("; 0\n#####\n#@$.#\n#####\n")
    split = split_of(next(read_levels(tmp_path)).room_fixed)
    other = next(name for name in SPLITS if name != split)
    with pytest.raises(UsageError, match="belongs to split"):
        SokobanEnv(levels=str(tmp_path), split=other)
    assert SokobanEnv(levels=str(tmp_path), split="all").task_count == 1


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=pytest.mark.slow if name == "gym" else ()) for name in ENTRY.variants]
)
def test_the_shipped_panels_are_certified_as_the_solver_says(variant: str, scale: float) -> None:
    shipped = json.loads(PANELS.read_text())[variant]
    count = min(int(10 * scale), len(shipped["moves"]))
    again = certify(variant, count)
    assert again == {key: shipped[key][:count] for key in again}


def test_the_cards_tables_are_those_of_the_measurements() -> None:
    assert CARD.read_text(encoding="utf-8") == card_with(tables(json.loads(PANELS.read_text())))
