"""Shortest plans, beside a search over everything."""

import pytest
from agentbench_envs.textworld.generate import Settings, draw
from agentbench_envs.textworld.planner import Planner

from agentbench.core.errors import Unsolvable

CUSTOM = Settings("custom", 2, 3, 4, 1, 0, "sparse", False, "train")


def brute_force(planner: Planner, most: int) -> int | None:
    """Return the length of a shortest plan, trying every action and forgetting nothing."""
    game = planner.game
    frontier = {(game.scene.grounding.start, 0)}
    seen = set(frontier)
    for length in range(most + 1):
        if any(planner.won(position) for position in frontier):
            return length
        following = set()
        for state, done in frontier:
            for action in game.scene.here[game.scene.room(state)]:
                if state & action.before == action.before:
                    after = state & ~action.delete | action.add
                    judged = planner._judge(after, done)
                    if judged is not None and (after, judged) not in seen:
                        following.add((after, judged))
        seen |= following
        frontier = following
    return None


@pytest.mark.parametrize(
    "settings",
    [
        CUSTOM,
        Settings("custom", 3, 5, 5, 2, 0, "dense", False, "train"),
        Settings("treasure", 3, 5, 4, 1, 0, "sparse", False, "train"),
        Settings("custom", 2, 4, 6, 1, 0, "balanced", True, "train"),
    ],
    ids=["custom", "dense", "treasure", "balanced"],
)
def test_no_plan_is_shorter_than_the_planners(settings: Settings, scale: float) -> None:
    for seed in range(max(3, round(10 * scale))):
        task = draw(settings, seed)
        assert brute_force(task.planner, len(task.plan)) == len(task.plan)


def test_distances_fall_by_one_along_a_plan_and_never_by_more() -> None:
    task = draw(CUSTOM, 0)
    scene = task.game.scene
    for position, distance in list(task.planner.distances.items()):
        if distance:
            after = [task.planner.distances[step] for _, step in task.planner.successors(position)]
            known = [other for other in after if other is not None]
            assert min(known) == distance - 1
    assert task.planner.distance(scene.grounding.start, 0) == len(task.plan) == 4


def test_a_lost_cause_is_called_one() -> None:
    for seed in range(200):
        task = draw(CUSTOM, seed)
        (win,) = task.game.quests[0].wins
        food = next(
            (fact.arguments[0] for fact in win if fact.name in ("on", "in") and fact.arguments[0][0] == "f"), None
        )
        eat = [action for action in task.game.scene.grounding.actions if action.rule == "eat"]
        eaten = [action for action in eat if action.things["f"] == food]
        if eaten:
            state = task.game.scene.grounding.start & ~eaten[0].before | eaten[0].add
            for action in task.game.scene.grounding.actions:
                if food in action.things.values():
                    state &= ~action.delete
            with pytest.raises(Unsolvable):
                task.planner.plan(state | task.game.scene.grounding.start & task.game.scene.anywhere | eaten[0].add, 0)
            return
    raise AssertionError("no game wants a food to be put somewhere")
