"""Generated worlds: splits by shape, the constraints of the original, goals of the length asked for."""

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from agentbench_envs.textworld import ENTRY, house
from agentbench_envs.textworld.generate import Settings, draw
from agentbench_envs.textworld.ground import ground
from agentbench_envs.textworld.logic import Atom, Logic, parse
from agentbench_envs.textworld.world import BACK, World, shape
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import UsageError

CUSTOM = Settings("custom", 3, 5, 5, 1, 0, "sparse", False, "train")
FAMILIES = [
    CUSTOM,
    Settings("treasure", 5, 8, 5, 1, 0, "sparse", False, "train"),
    Settings("coin", 2, 3, 8, 1, 1, "sparse", False, "train"),
    Settings("cooking", 3, 3, 2, 1, 2, "dense", False, "train"),
]


@pytest.mark.parametrize("settings", FAMILIES, ids=lambda settings: settings.family)
def test_no_shape_of_a_world_is_in_two_splits(settings: Settings, scale: float) -> None:
    shapes = {
        split: {
            shape(set(scene.facts), scene.kinds)
            for seed in range(round(25 * scale))
            for scene in [draw(replace(settings, split=split), seed).game.scene]
        }
        for split in ("train", "valid", "test")
    }
    assert not shapes["train"] & shapes["test"]
    assert not shapes["train"] & shapes["valid"]
    assert not shapes["valid"] & shapes["test"]


def turned(facts: set[Atom], mirrored: bool) -> set[Atom]:
    """Turn the map by a quarter, or mirror it east to west."""
    turns = {"north_of": "west_of", "west_of": "south_of"}
    changed = set()
    for fact in facts:
        name, arguments = fact
        if name == "west_of" and mirrored:
            arguments = arguments[::-1]
        elif not mirrored and name in turns:
            name = turns[name]
            if name == "south_of":
                name, arguments = "north_of", arguments[::-1]
        changed.add(Atom(name, arguments))
    return changed


@given(seed=st.integers(0, 10**6), rooms=st.integers(1, 8), mirrored=st.booleans())
def test_turning_mirroring_and_renaming_keep_the_shape(seed: int, rooms: int, mirrored: bool) -> None:
    world = World(np.random.default_rng(seed))
    world.grow(rooms)
    world.say("at", "P", world.of("r")[0])
    world.put(world.new("o"), world.of("r")[-1])
    before = world.shape()
    assert shape(turned(world.facts, mirrored), world.kinds) == before
    renamed = {entity: f"new{number}" for number, entity in enumerate(reversed(world.kinds))}
    facts = {Atom(fact.name, tuple(renamed.get(each, each) for each in fact.arguments)) for fact in world.facts}
    assert shape(facts, {renamed[entity]: kind for entity, kind in world.kinds.items()}) == before


def test_moving_a_thing_changes_the_shape() -> None:
    world = World(np.random.default_rng(0))
    world.grow(3)
    first, *_, last = world.of("r")
    world.say("at", "P", first)
    thing = world.new("o")
    near, far = (shape(world.facts | {Atom("at", (thing, room))}, world.kinds) for room in (first, last))
    assert near != far


@pytest.fixture(scope="module")
def original() -> Logic:
    """The rules of a recorded game, with the constraints that its makers put on every state."""
    folder = Path(__file__).parents[2] / "data" / "golden" / "environments"
    with tarfile.open(folder / "textworld_games.tar.gz") as archive:
        member = archive.extractfile("w2-o3-q4_50002.json")
        assert member is not None
        return parse(json.load(member)["KB"]["logic"])


@pytest.mark.parametrize("settings", FAMILIES[:3], ids=lambda settings: settings.family)
def test_worlds_keep_the_originals_constraints(settings: Settings, original: Logic, scale: float) -> None:
    for seed in range(round(8 * scale)):
        scene = draw(settings, seed).game.scene
        facts = scene.facts | {
            Atom(f"{BACK[fact.name[:-3]]}_of", fact.arguments[::-1]) for fact in scene.facts if fact.name[:-3] in BACK
        }
        broken = [
            replace(rule, command=rule.name, after=(*rule.before, Atom("broken", ()))) for rule in original.constraints
        ]
        logic = replace(original, rules=tuple(broken))
        assert [action.command for action in ground(logic, facts, scene.kinds, {}).actions] == []


@pytest.mark.parametrize("length", [1, 3, 6])
def test_a_goal_has_the_length_asked_for(length: int) -> None:
    for seed in range(5):
        assert len(draw(replace(CUSTOM, length=length), seed).plan) == length


def test_a_goal_has_the_breadth_asked_for() -> None:
    (quest,) = draw(replace(CUSTOM, breadth=2), 0).game.quests
    assert [len(win) for win in quest.wins] == [2]


def test_dense_pays_for_more_than_balanced_and_balanced_for_more_than_sparse() -> None:
    scores = [
        draw(replace(CUSTOM, length=6, rewards=rewards), 3).game.max_score
        for rewards in ("sparse", "balanced", "dense")
    ]
    assert scores[0] == 1 < scores[1] < scores[2] <= 7


def test_the_house_has_twelve_games_each_in_one_split() -> None:
    games = [game for split in ("train", "valid", "test") for game in house.tasks(split)]
    assert len(games) == len(set(games)) == len(house.KEY_PLACES) * len(house.FOODS)


@pytest.mark.parametrize(
    "wrong",
    [{"family": "chess"}, {"rooms": 0}, {"length": 0}, {"objects": 1000}, {"breadth": 9}, {"rewards": "much"},
     {"split": "all"}, {"distractors": -1}, {"family": "cooking", "length": 9}],
    ids=str,
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="expected"):
        replace(CUSTOM, **wrong).check()  # type: ignore[arg-type]


def test_a_length_that_no_world_has_is_refused() -> None:
    with pytest.raises(UsageError, match="worlds fits"):
        draw(replace(CUSTOM, rooms=1, objects=1, length=30), 0)


def test_the_ladder_grows() -> None:
    lengths = [
        variant.kwargs["length"] for name, variant in ENTRY.variants.items() if name[0] == "w" and name[1].isdigit()
    ]
    assert sorted(lengths) == sorted(set(lengths))
