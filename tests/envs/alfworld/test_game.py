"""The engine beside recordings of the original, and the rules that surprise, one by one."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agentbench_envs.alfworld.game import AlfworldGame
from agentbench_envs.alfworld.text import NEW, OLD, Wording, listed, shown_names

from agentbench.core.errors import UsageError
from tests.envs.alfworld.games import DATA, recorded

ROOM = """
(define (problem p) (:domain alfred)
(:objects agent1 - agent  loc_bar_0 loc_bar_1 loc_bar_2 loc_bar_3 - location
  fridge_bar_1 desk_bar_1 shelf_bar_1 sink_bar_1_bar_sinkbasin - receptacle
  fridgetype desktype shelftype sinkbasintype - rtype
  apple_bar_1 apple_bar_2 knife_bar_1 desklamp_bar_1 mug_bar_1 - object
  appletype knifetype desklamptype mugtype - otype)
(:init (atLocation agent1 loc_bar_0)
  (receptacleAtLocation fridge_bar_1 loc_bar_1) (receptacleAtLocation desk_bar_1 loc_bar_2)
  (receptacleAtLocation shelf_bar_1 loc_bar_2) (receptacleAtLocation sink_bar_1_bar_sinkbasin loc_bar_3)
  (receptacleType fridge_bar_1 FridgeType) (receptacleType desk_bar_1 DeskType) (receptacleType shelf_bar_1 ShelfType)
  (receptacleType sink_bar_1_bar_sinkbasin SinkBasinType) (openable fridge_bar_1)
  (canContain FridgeType AppleType) (canContain DeskType AppleType) (canContain ShelfType AppleType)
  (canContain DeskType KnifeType) (canContain ShelfType KnifeType)
  (objectType apple_bar_1 AppleType) (objectType apple_bar_2 AppleType) (objectType knife_bar_1 KnifeType)
  (objectType desklamp_bar_1 DeskLampType) (objectType mug_bar_1 MugType)
  (pickupable apple_bar_1) (pickupable apple_bar_2) (pickupable knife_bar_1) (pickupable mug_bar_1)
  (coolable apple_bar_1) (cleanable apple_bar_1) (sliceable apple_bar_1) (toggleable desklamp_bar_1)
  (isReceptacleObject mug_bar_1)
  (inReceptacle apple_bar_1 desk_bar_1) (inReceptacle apple_bar_2 desk_bar_1) (inReceptacle knife_bar_1 shelf_bar_1)
  (inReceptacle desklamp_bar_1 fridge_bar_1) (inReceptacle mug_bar_1 desk_bar_1))
(:goal (exists (?r - receptacle ?o - object) (and (inReceptacle ?o ?r) (objectType ?o AppleType)
  (receptacleType ?r FridgeType) (isCool ?o)))))
"""


def started(wording: Wording = NEW) -> AlfworldGame:
    return AlfworldGame.from_pddl(ROOM, "put a cool apple in fridge", wording)


def said(game: AlfworldGame, *commands: str) -> str:
    return [game.act(command)[0] for command in commands][-1]


def replay(episode: dict[str, Any], wording: Wording = NEW) -> int:
    """Play a recorded episode; return the first step that differs, or -1."""
    game = AlfworldGame.from_pddl(episode["problem"], episode["task"], wording)
    assert game.reset() == (episode["reset"]["obs"], episode["reset"]["admissible"])
    for number, step in enumerate(episode["steps"]):
        if game.act(step["cmd"]) != (step["obs"], step["won"], step["admissible"]):
            return number
    return -1


def test_every_recorded_episode_replays_exactly() -> None:
    played = [(episode["game"], episode["mode"], replay(episode)) for episode in recorded()]
    assert len(played) == 54
    assert [game for game in played if game[2] != -1] == []


def test_both_generations_replay_exactly_on_rooms_of_our_own() -> None:
    """Recorded with textworld 1.7.0 from the domains and grammars of alfworld 0.4.2 and 0.3.5; see their README."""
    with gzip.open(DATA / "alfworld" / "own_rooms.jsonl.gz", "rt", encoding="utf-8") as lines:
        episodes = [json.loads(line) for line in lines]
    assert {episode["generation"] for episode in episodes} == {"new", "old"}
    wordings = {"new": NEW, "old": OLD}
    assert [replay(episode, wordings[episode["generation"]]) for episode in episodes] == [-1] * len(episodes)


def test_32_threads_replay_as_one_does() -> None:
    episodes = list(recorded())[:32]
    with ThreadPoolExecutor(32) as threads:
        assert list(threads.map(replay, episodes * 2)) == [-1] * 64


def test_recorded_names_are_those_of_the_original() -> None:
    for episode in recorded():
        game = AlfworldGame.from_pddl(episode["problem"], episode["task"])
        assert game.world.names == episode["entity_names"]


def test_the_first_of_a_class_gets_the_highest_number() -> None:
    assert shown_names(["mug_bar_b", "mug_bar_a", "cup_bar_z", "agent1"]) == {
        "agent1": "agent1 ", "cup_bar_z": "cup 1", "mug_bar_a": "mug 2", "mug_bar_b": "mug 1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "text"), [([], "nothing"), (["a"], "a"), (["a", "b"], "a, and b"), (["a", "b", "c"], "a, b, and c")]
)
def test_lists_have_a_comma_before_and(names: list[str], text: str) -> None:
    assert listed(names) == text


def test_anything_but_an_admissible_command_changes_nothing() -> None:
    game = started()
    _, before = game.reset()
    for command in ("", "GO to desk 1", "go to  desk 1", "take mug 1 from desk 1", "go to desk 9", "put mug"):
        assert game.act(command) == ("Nothing happens.", False, before)
    assert game.act("  go to desk 1\n")[0].startswith("You arrive at desk 1.")


def test_the_room_is_seen_once_and_neighbours_are_not_walked_to() -> None:
    game = started()
    observation, admissible = game.reset()
    assert "you see a desk 1, a fridge 1, a shelf 1, and a sinkbasin 1.\n" in observation
    assert said(game, "look").endswith("you see nothing.")
    assert "go to shelf 1" in admissible
    assert "go to shelf 1" not in game.act("go to desk 1")[2]
    assert said(game, "look") == "You are facing the desk 1, and shelf 1. Next to it, you see nothing."
    assert said(game, "take knife 1 from shelf 1") == "You pick up the knife 1 from the shelf 1."


def test_what_moved_between_neighbours_lies_beside_them() -> None:
    game = started()
    moved = ("go to desk 1", "take apple 1 from desk 1", "move apple 1 to shelf 1")
    assert said(game, *moved, "look").endswith("Next to it, you see a apple 1.")
    assert said(game, "take apple 1 from shelf 1", "move apple 1 to desk 1", "look").endswith("you see a apple 1.")


def test_a_lamp_behind_a_closed_door_can_be_switched_on_and_never_off() -> None:
    game = started()
    assert said(game, "go to fridge 1") == "You arrive at fridge 1. The fridge 1 is closed."
    assert [said(game, "use desklamp 1") for _ in range(2)] == ["You turn on the desklamp 1."] * 2


def test_treatments_need_no_open_door_and_change_what_is_examined() -> None:
    game = started()
    said(game, "go to desk 1", "take apple 2 from desk 1", "go to fridge 1")
    assert said(game, "examine apple 2") == "There's nothing special about apple 2."
    assert said(game, "cool apple 2 with fridge 1") == "You cool the apple 2 using the fridge 1."
    assert said(game, "examine apple 2") == "This is a cold apple 2."
    assert said(game, "go to sinkbasin 1", "clean apple 2 with sinkbasin 1", "examine apple 2") == (
        "This is a cool and clean apple 2."
    )
    said(game, "go to fridge 1", "open fridge 1")
    assert game.act("move apple 2 to fridge 1")[1] is True


def test_only_what_was_put_down_here_can_be_sliced() -> None:
    game = started()
    said(game, "go to desk 1", "take knife 1 from shelf 1")
    assert not any(command.startswith("slice") for command in game.admissible)
    said(game, "move knife 1 to desk 1", "take apple 2 from desk 1", "move apple 2 to shelf 1")
    assert said(game, "take knife 1 from desk 1", "slice apple 2 with knife 1") == (
        "You sliced the apple 2 with the knife 1."
    )
    said(game, "move knife 1 to desk 1", "take apple 2 from shelf 1")
    assert said(game, "examine apple 2") == "This is a sliced apple 2."


def test_a_vessel_is_normal_and_empty() -> None:
    assert said(started(), "go to desk 1", "take mug 1 from desk 1", "examine mug 1") == (
        "This is a normal mug 1. In it, you see nothing."
    )


def test_the_older_games_speak_of_locations_put_things_and_offer_no_help() -> None:
    game = started(OLD)
    assert "help" not in game.reset()[1]
    assert said(game, "go to desk 1").startswith("You arrive at loc ")
    said(game, "take apple 1 from desk 1")
    assert said(game, "put apple 1 in/on shelf 1") == "You put the apple 1 in/on the shelf 1."


def test_conditions_count_what_the_nearest_way_to_win_still_lacks() -> None:
    game = started()
    assert game.conditions == (0, 2)
    said(game, "go to desk 1", "take apple 2 from desk 1", "go to fridge 1", "cool apple 2 with fridge 1")
    assert game.conditions == (1, 2)
    said(game, "open fridge 1", "move apple 2 to fridge 1")
    assert game.conditions == (2, 2)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("agent1 - agent", "agent1 agent2 - agent", "2 for the agent"),
        (
            "(inReceptacle ?o ?r) (objectType ?o AppleType)\n  (receptacleType ?r FridgeType) (isCool ?o)",
            "(= ?o ?o)",
            "holds whatever is done",
        ),
        ("(atLocation agent1 loc_bar_0)", "", "0 for the start"),
        ("(openable fridge_bar_1)", "(receptacleAtLocation fridge_bar_1 loc_bar_2)", "stands at two locations"),
        ("(openable fridge_bar_1)", "(holds agent1 mug_bar_1)", "expected one and holdsAny"),
    ],
)
def test_rooms_that_cannot_be_are_refused(old: str, new: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        AlfworldGame.from_pddl(ROOM.replace(old, new), "x")
