"""Plans are as short as can be: beside a blind breadth-first search over the game itself."""

import copy

import pytest
from agentbench_envs.alfworld.game import AlfworldGame, State
from agentbench_envs.alfworld.planner import Planner
from agentbench_envs.alfworld.scenes import TASKS, Settings, draw_scene

from agentbench.core.errors import Unsolvable
from agentbench.core.seeding import generator
from tests.envs.alfworld.games import problems, recorded
from tests.envs.alfworld.test_game import ROOM, said


def shortest(game: AlfworldGame) -> int:
    """Return the length of a shortest solution, by trying everything but looking."""
    frontier, seen, turns = [game.state], {frozenset(game.state.facts)}, 0
    while frontier:
        following: list[State] = []
        for state in frontier:
            probe = AlfworldGame(game.world)
            probe.state = state
            if probe._reached():
                return turns
            probe._actions = None
            for action in list(probe.actions.values()):
                if action.verb in ("look", "inventory", "help", "examine", "close"):
                    continue
                other = AlfworldGame(game.world)
                other.state = copy.deepcopy(state)
                other.apply(action)
                key = frozenset(other.state.facts)
                if key not in seen:
                    seen.add(key)
                    following.append(other.state)
        frontier, turns = following, turns + 1
    raise AssertionError("the whole game was searched without a solution")


SMALL = Settings(receptacles=4, distractors=1, copies=1, shared=0.4, closed=0.7, longest=9)


@pytest.mark.parametrize("task", TASKS)
def test_plans_are_shortest(task: str, scale: float) -> None:
    small = Settings(**{name: getattr(SMALL, name) for name in Settings.__slots__} | {"tasks": (task,)})
    for seed in range(int(4 * scale)):
        game = AlfworldGame(draw_scene(small, seed).world)
        rng = generator("planner walk", seed)
        for _ in range(int(rng.integers(12))):
            admissible = game.admissible
            game.act(admissible[int(rng.integers(len(admissible)))])
        plan = Planner(game.world).plan(game.state)
        assert len(plan) == shortest(game)


def test_plans_win_when_they_are_played() -> None:
    for text, task in problems().values():
        game = AlfworldGame.from_pddl(text, task)
        won = False
        for action in Planner(game.world).plan(game.state):
            assert not won
            won = game.act(game.world.command(action))[1]
        assert won


def test_no_recorded_expert_was_faster() -> None:
    for episode in recorded():
        wins = [number for number, step in enumerate(episode["steps"], start=1) if step["won"]]
        game = AlfworldGame.from_pddl(episode["problem"], episode["task"])
        assert len(Planner(game.world).plan(game.state)) <= min(wins, default=50)


def test_what_is_in_hand_is_put_down_on_the_way() -> None:
    game = AlfworldGame.from_pddl(ROOM, "put a cool apple in fridge")
    said(game, "go to desk 1", "take knife 1 from shelf 1")
    commands = [game.world.command(action) for action in Planner(game.world).plan(game.state)]
    assert len(commands) == 6
    assert commands[0] in ("move knife 1 to desk 1", "move knife 1 to shelf 1")
    assert [said(game, command) for command in commands]
    assert game.won


def test_a_won_game_needs_nothing_more() -> None:
    game = AlfworldGame.from_pddl(ROOM.replace("(isCool ?o)", ""), "x")
    said(
        game, "go to desk 1", "take apple 1 from desk 1", "go to fridge 1", "open fridge 1", "move apple 1 to fridge 1"
    )
    assert Planner(game.world).plan(game.state) == []


@pytest.mark.parametrize(
    "change", [("(coolable apple_bar_1)", ""), ("(canContain FridgeType AppleType)", ""), ("(isCool ?o)", "(isHot ?o)")]
)
def test_what_cannot_be_reached_is_said_so(change: tuple[str, str]) -> None:
    game = AlfworldGame.from_pddl(ROOM.replace(*change), "x")
    with pytest.raises(Unsolvable, match="no plan"):
        Planner(game.world).plan(game.state)


def test_a_game_of_many_ways_that_lead_nowhere_is_given_up() -> None:
    """A hostile file: ten thousand ways to win would be searched, and none is possible."""
    copies = " ".join(f"thing_bar_{number}" for number in range(60))
    facts = " ".join(f"(inReceptacle thing_bar_{k} desk_bar_1) (pickupable thing_bar_{k})" for k in range(60))
    goal = "(:goal (exists (?a ?b - object) (and (pickupable ?a) (pickupable ?b) (isHot ?a) (holds agent1 ?b))))))"
    text = ROOM.partition("(:goal")[0].replace("mug_bar_1 - object", f"mug_bar_1 {copies} - object") + goal
    game = AlfworldGame.from_pddl(text.replace("(:init ", f"(:init {facts} "), "x")
    with pytest.raises(Unsolvable):
        Planner(game.world).plan(game.state)
