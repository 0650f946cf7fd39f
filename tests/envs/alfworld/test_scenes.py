"""Our own rooms: solvable, disjoint between splits in what they hold, and harder along the ladder."""

import json
import math
from statistics import mean
from typing import Any
from xml.etree import ElementTree

import pytest
from agentbench_envs.alfworld.env import AlfworldEnv
from agentbench_envs.alfworld.game import World
from agentbench_envs.alfworld.pddl import Problem
from agentbench_envs.alfworld.scenes import SPLITS, TASKS, Settings, draw_scene

from agentbench.core.errors import UsageError
from agentbench.core.registry import resolve
from tests.benchmarks.alfworld_panels import CARD, DRAWN, FIGURE, PANELS, card_with, figure, lengths, tables


def made(variant: str, split: str = "test-unseen") -> AlfworldEnv:
    env = resolve(f"alfworld/{variant}", split=split).make()
    assert isinstance(env, AlfworldEnv)
    return env


def template(world: World) -> tuple[tuple[str, int], ...]:
    """Return how many receptacles of each kind a room has."""
    kinds = [fact[2] for fact in world.problem.facts if fact[0] == "receptacletype"]
    return tuple(sorted((kind, kinds.count(kind)) for kind in set(kinds)))


def shape(problem: Problem) -> frozenset[Any]:
    """Describe a scene by what stands and lies together, without any name: an own account of what `content` hashes."""
    facts = problem.facts
    place = {fact[1]: fact[2] for fact in facts if fact[0] == "receptacleatlocation"}
    kind = {fact[1]: fact[2] for fact in facts if fact[0] in ("receptacletype", "objecttype")}
    inside: dict[str, list[str]] = {name: [] for name in place}
    for fact in facts:
        if fact[0] == "inreceptacle":
            inside[fact[2]].append(kind[fact[1]])
    groups: dict[str, list[Any]] = {}
    for name, where in place.items():
        groups.setdefault(where, []).append((kind[name], tuple(sorted(inside[name]))))
    described = [repr(sorted(group)) for group in groups.values()]
    return frozenset((one, described.count(one)) for one in described) | {repr(problem.goal)}


@pytest.mark.parametrize("variant", ["synth", "tiny"])
def test_no_scene_is_in_two_splits_and_no_unseen_room_in_any_other(variant: str, scale: float) -> None:
    scenes: dict[str, set[frozenset[Any]]] = {}
    rooms: dict[str, set[Any]] = {}
    for split in SPLITS:
        env = made(variant, split)
        for seed in range(int(150 * scale)):
            world = draw_scene(env.settings, seed).world
            scenes.setdefault(split, set()).add(shape(world.problem))
            rooms.setdefault(split, set()).add(template(world))
    for number, split in enumerate(SPLITS):
        for other in SPLITS[:number]:
            assert not scenes[split] & scenes[other]
    assert not rooms["test-unseen"] & (rooms["train"] | rooms["valid"] | rooms["test-seen"])
    assert rooms["test-seen"] & rooms["train"]


def test_content_is_equal_exactly_for_equal_scenes() -> None:
    env = made("tiny", "train")
    by_content: dict[str, set[frozenset[Any]]] = {}
    by_shape: dict[frozenset[Any], set[str]] = {}
    for seed in range(400):
        scene = draw_scene(env.settings, seed)
        by_content.setdefault(scene.content, set()).add(shape(scene.world.problem))
        by_shape.setdefault(shape(scene.world.problem), set()).add(scene.content)
    assert all(len(shapes) == 1 for shapes in by_content.values())
    assert all(len(contents) == 1 for contents in by_shape.values())


def test_the_seed_alone_decides_the_scene() -> None:
    fresh = {seed: made("synth").reset(seed=seed)[0] for seed in range(10)}
    draw_scene.cache_clear()
    used = made("synth")
    assert {seed: used.reset(seed=seed)[0] for seed in reversed(range(10))} == fresh


@pytest.mark.parametrize("variant", DRAWN)
def test_the_oracle_wins_every_task_within_its_turns(variant: str, scale: float) -> None:
    env, turns = made(variant), resolve(f"alfworld/{variant}").max_turns
    for seed in range(int(25 * scale)):
        _, info = env.reset(seed=seed)
        plan = env.oracle()
        assert len(plan) == info["optimal"] <= turns
        assert [env.step(action) for action in plan][-1].info["success"]


def test_the_ladder_gets_longer() -> None:
    ladder = ("place", "closed", "treat", "gather-2", "gather-3", "gather-4")
    lengths = [mean(draw_scene(made(variant).settings, seed).solution for seed in range(60)) for variant in ladder]
    assert lengths == sorted(lengths)
    assert lengths[-1] > 3 * lengths[0]


@pytest.mark.parametrize("task", TASKS)
def test_every_kind_of_task_can_be_had_alone(task: str) -> None:
    settings = Settings(tasks=(task,))
    told = {draw_scene(settings, seed).world.task for seed in range(20)}
    first = {"place": "put", "examine": "look examine", "clean": "put clean", "heat": "put heat", "cool": "put cool"}
    assert {sentence.split()[0] for sentence in told} <= set(first.get(task, "put find").split())
    assert len(told) > 5


def test_knobs_do_what_they_say() -> None:
    worlds = [
        draw_scene(Settings(closed=0.0, shared=0.0, receptacles=6, distractors=2, copies=0), k).world for k in range(30)
    ]
    for world in worlds:
        opened = {fact[1] for fact in world.problem.facts if fact[0] == "opened"}
        assert opened == world.openable
        assert all(len(there) == 1 for there in world.at.values())
        assert len(world.receptacles) <= 6
        assert sum(fact[0] == "inreceptacle" for fact in world.problem.facts) <= 4
    shared = draw_scene(Settings(shared=1.0), 0).world
    assert len(shared.at) == 1


def test_lengths_stay_within_the_asked_bounds() -> None:
    settings = Settings(shortest=6, longest=7)
    assert {draw_scene(settings, seed).solution for seed in range(30)} <= {6, 7}


@pytest.mark.parametrize(
    ("kwargs", "complaint"),
    [
        ({"split": "test"}, "the split 'test', expected one of train"),
        ({"tasks": "place,fly"}, "the task 'fly'"),
        ({"rooms": "attic"}, "the room 'attic'"),
        ({"receptacles": 1}, "3 to 40 receptacles"),
        ({"count": 9}, "a count of 9"),
        ({"closed": 2.0}, "shares"),
        ({"shortest": 9, "longest": 3}, "below shortest"),
        ({"max_steps": 0}, "max_steps 0"),
        ({"source": "web"}, "the source 'web'"),
        ({"short": True}, "rooms without equal things"),
        ({"sight": True}, "sight belongs to the short dialect"),
    ],
)
def test_impossible_settings_are_refused_with_a_reason(kwargs: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        AlfworldEnv(**kwargs)


def test_settings_that_no_scene_fits_end_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbench_envs.alfworld.scenes.MOST_DRAWS", 30)
    with pytest.raises(UsageError, match="none of 30 scenes fits"):
        AlfworldEnv(tasks="heat", rooms="bathroom").reset(seed=0)


@pytest.mark.parametrize("variant", DRAWN)
def test_random_play_stays_under_the_cards_bound(variant: str, scale: float) -> None:
    bound, tasks = 0.15, int(40 * scale)
    env, won = made(variant), 0
    for seed in range(tasks):
        env.reset(seed=seed)
        for _ in range(env.max_steps):
            step = env.step(env.random_action())
            if step.terminated or step.truncated:
                won += step.terminated
                break
    assert won <= bound * tasks + 3 * math.sqrt(bound * (1 - bound) * tasks)


@pytest.mark.parametrize("variant", DRAWN)
def test_the_shipped_lengths_are_those_that_the_planner_finds(variant: str, scale: float) -> None:
    measured = json.loads(PANELS.read_text(encoding="utf-8"))[variant]["optimal"]
    count = min(int(20 * scale), len(measured))
    assert lengths(variant, count) == measured[:count]


def test_the_cards_table_and_figure_are_those_of_the_measurements() -> None:
    panels = json.loads(PANELS.read_text(encoding="utf-8"))
    assert CARD.read_text(encoding="utf-8") == card_with(tables(panels))
    assert FIGURE.read_text(encoding="utf-8") == figure(panels)
    assert ElementTree.parse(FIGURE).getroot().tag.endswith("svg")
