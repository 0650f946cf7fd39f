"""What there is to do in a world: goals of an exact optimal length, and how densely the way to them is paid.

TextWorld samples a quest as a chain of actions, backwards. Here goals are drawn in a finished world and measured by the
planner, so that the length asked for is the length of a shortest solution, not of the one that was sampled.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from agentbench.core.errors import GenerationError, Unsolvable
from agentbench_envs.textworld.game import Game, Quest, Scene
from agentbench_envs.textworld.ground import Action
from agentbench_envs.textworld.logic import Atom
from agentbench_envs.textworld.planner import Planner
from agentbench_envs.textworld.world import World

Rewards = Literal["dense", "balanced", "sparse"]

MOST_GOALS = 16
"""Goals that are measured in one world before another is drawn."""

_MILESTONES = ("take", "insert", "put", "eat", "unlock", "cook", "slice", "dice", "chop", "prepare")
"""Verbs that `balanced` pays for; `dense` pays for going and opening too."""


def choose(world: World, scene: Scene, goals: Sequence[Atom], length: int, breadth: int = 1) -> frozenset[Atom]:
    """Draw `breadth` of these facts, such that a shortest plan for all of them has `length` actions.

    Raises:
        GenerationError: None was found in this world.
    """
    for _ in range(MOST_GOALS if len(goals) >= breadth else 0):
        goal = frozenset(goals[int(k)] for k in world.rng.choice(len(goals), breadth, replace=False))
        with suppress(Unsolvable):
            if Planner(Game(scene, [Quest((goal,))])).distance(scene.grounding.start, 0) == length:
                return goal
    raise GenerationError(f"no goal of length {length} in this world")


def pay(game: Game, plan: list[Action], rewards: Rewards) -> list[Quest]:
    """Return quests that pay for the way to a goal: 1 for each step that counts, the goal itself being the last."""
    grounding = game.scene.grounding
    steps = [step for step in plan if rewards == "dense" or step.command.startswith(_MILESTONES)]
    paid = [] if rewards == "sparse" else [frozenset(grounding.facts(step.add) - grounding.fixed) for step in steps]
    goals = {win for quest in game.quests for win in quest.wins}
    return [Quest((facts,)) for facts in dict.fromkeys(paid) if facts not in goals] + list(game.quests)


def to_hold(world: World) -> list[Atom]:
    """Return what can be taken."""
    goals = [Atom("in", (thing, "I")) for thing in world.of("o", "f", "k")]
    return [fact for fact in goals if fact not in world.facts]


def to_do(world: World) -> list[Atom]:
    """Return facts that somebody may want to bring about."""
    goals: list[Atom] = []
    for thing in world.of("o", "f", "k"):
        goals += [Atom("on", (thing, place)) for place in world.of("s")]
        goals += [Atom("in", (thing, place)) for place in world.of("c")]
    goals += [Atom("eaten", (food,)) for food in world.of("f")]
    goals += [Atom("open", (thing,)) for thing in world.of("c", "d")]
    goals += [Atom("at", ("P", room)) for room in world.of("r")]
    return [fact for fact in goals if fact not in world.facts] + to_hold(world)
