"""The environment around the game: rewards, ends, what the info says, and the short dialect."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agentbench_envs.alfworld.env import AlfworldEnv
from agentbench_envs.alfworld.scenes import draw_scene

from agentbench.core.checks import hostile_actions
from agentbench.core.env import Step
from agentbench.core.errors import Unsolvable, UsageError
from agentbench.core.registry import resolve


def tiny(**kwargs: Any) -> AlfworldEnv:
    env = resolve("alfworld/tiny:train", **kwargs).make()
    assert isinstance(env, AlfworldEnv)
    return env


def started(seed: int = 0, **kwargs: Any) -> AlfworldEnv:
    env = AlfworldEnv(**kwargs)
    env.reset(seed=seed)
    return env


def played(env: AlfworldEnv) -> list[Step]:
    return [env.step(action) for action in env.oracle()]


def test_winning_pays_one_and_ends() -> None:
    steps = played(started())
    assert [step.reward for step in steps] == [0.0] * (len(steps) - 1) + [1.0]
    assert steps[-1][2:4] == (True, False)
    assert steps[-1].info["potential"] == 0.0


def test_the_oracles_potential_rises_evenly_from_minus_one() -> None:
    env = started(3)
    _, info = env.reset(seed=3)
    potentials = [info["potential"], *[step.info["potential"] for step in played(env)]]
    count = len(potentials) - 1
    assert potentials == pytest.approx([-1 + turn / count for turn in range(count + 1)])


def test_the_conditions_add_up_to_what_was_missing() -> None:
    for seed in range(10):
        env = started(seed)
        begun = env._conditions
        assert begun + sum(step.info["terms"]["conditions"] for step in played(env)) == pytest.approx(1.0)


def test_a_command_that_is_not_possible_costs_its_turn_and_nothing_else() -> None:
    env = started()
    anchor = env._anchor()
    step = env.step("open the pod bay doors")
    assert (step.observation, step.reward, step.info["valid"]) == ("Nothing happens.", 0.0, False)
    assert step.info["terms"] == {"won": 0.0, "conditions": 0.0, "nothing": 1.0}
    assert step.info["anchor"] == anchor
    assert step.info["steps"] == 1


def test_the_last_turn_cuts_off_unless_it_wins() -> None:
    assert started(max_steps=3, longest=3).step("look")[2:4] == (False, False)
    env = started(max_steps=4)
    ends = [env.step("look")[2:4] for _ in range(4)]
    assert ends == [(False, False)] * 3 + [(False, True)]
    env.reset(seed=0)
    for action in env.oracle():
        last = env.step(action)
    assert last[2:4] == (True, False)


def test_the_oracle_knows_the_turns_that_are_left() -> None:
    env = started(max_steps=8)
    for _ in range(6):
        env.step("look")
    with pytest.raises(Unsolvable, match="2 are left"):
        env.oracle()


def test_anchors_are_equal_exactly_where_nothing_differs() -> None:
    env = started(1)
    places = [command for command in env.game.admissible if command.startswith("go to")]
    first = env.step(places[0]).info["anchor"]
    assert env.step(places[1]).info["anchor"] != first
    assert env.step("look").info["anchor"] != first
    assert env.step(places[0]).info["anchor"] == first


def test_admissible_commands_are_shown_on_request() -> None:
    env = AlfworldEnv(admissible=True)
    observation, info = env.reset(seed=0)
    shown = observation.partition("\n\nAdmissible commands:\n")[2].split("\n")
    assert shown == info["admissible"]
    step = env.step(shown[0])
    assert step.observation.endswith("\n".join(step.info["admissible"]))


def test_the_longest_is_never_beyond_the_cap() -> None:
    env = AlfworldEnv(max_steps=5)
    assert all(env.reset(seed=seed)[1]["optimal"] <= 5 for seed in range(20))


def placing() -> AlfworldEnv:
    """Return an environment with a short task of four turns: go, take, go, put."""
    env = tiny(closed=0.0, tasks="place")
    assert env.reset(seed=3)[1]["optimal"] == 4
    return env


def test_the_short_dialect_says_where_what_and_what_is_held() -> None:
    env = placing()
    observation, info = env.reset(seed=3)
    task, places = observation.split("\n")
    _, thing, _, home = task.split()
    assert {f"go {place}" for place in places.split()} | {"look"} == set(info["admissible"])
    plan = env.oracle()
    assert plan[1:] == [f"take {thing}", f"go {home}", f"put {thing}"]
    found, taken, there, done = (env.step(command).observation for command in plan)
    source = plan[0].removeprefix("go ")
    assert found.startswith(f"{source}: ")
    assert thing in found.split()
    assert taken.startswith(f"{source}:")
    assert taken.endswith(f"\nheld {thing}")
    assert there.startswith(f"{home}:")
    assert done.startswith(f"{home}: ")
    assert "held" not in done


def test_sight_shows_what_is_not_behind_doors() -> None:
    env = resolve("alfworld/tiny-sight:train").make()
    plain = tiny()
    for seed in range(10):
        task, *lines = env.reset(seed=seed)[0].split("\n")
        hidden, places = plain.reset(seed=seed)[0].split("\n")
        assert (task, [line.split()[0].rstrip(":") for line in lines]) == (hidden, places.split())
        assert isinstance(env, AlfworldEnv)
        world = env.game.world
        open_things = sum(
            len(env.game.state.contents[place]) for place in world.receptacles if place not in world.openable
        )
        assert sum(len(line.split()) - 1 for line in lines if not line.endswith(" closed")) == open_things


def test_the_short_dialect_answers_no() -> None:
    env = placing()
    assert env.step("take everything").observation == "no\nroom"
    command = env.oracle()[0]
    seen = env.step(command).observation
    again = env.step(command)
    assert (again.observation, again.info["valid"]) == (f"no\n{seen}", False)


def test_doors_are_seen_in_the_short_dialect() -> None:
    env = tiny(closed=1.0)
    for seed in range(50):
        env.reset(seed=seed)
        plan = env.oracle()
        if any(command.startswith("open") for command in plan):
            seen = [env.step(command).observation for command in plan]
            break
    assert any(" closed" in observation for observation in seen)


def test_options_are_refused() -> None:
    with pytest.raises(UsageError, match="option 'level'"):
        AlfworldEnv().reset(seed=0, options={"level": "x"})


def test_a_snapshot_holds_the_middle_of_an_episode() -> None:
    env, other = started(2), AlfworldEnv()
    plan = env.oracle()
    env.step(plan[0])
    state = env.snapshot()
    there = [env.step(action) for action in plan[1:]]
    other.restore(state)
    assert [other.step(action) for action in plan[1:]] == there


WALK = """
import hashlib, json
from agentbench.core.checks import play_random
from agentbench.core.registry import resolve
def walk(seed):
    env = resolve(f"alfworld/{('synth', 'tiny', 'gather-2')[seed % 3]}:train").make()
    return hashlib.sha256(json.dumps(play_random(env, seed, limit=50)).encode()).hexdigest()
"""


def test_threads_and_processes_play_the_same_episodes() -> None:
    own: dict[str, Any] = {}
    exec(WALK, own)
    serial = [own["walk"](seed) for seed in range(12)]
    draw_scene.cache_clear()
    with ThreadPoolExecutor(32) as threads:
        assert list(threads.map(own["walk"], list(range(12)) * 3)) == serial * 3
    program = WALK + "print(json.dumps([walk(seed) for seed in range(12)]))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == serial


def test_a_thousand_random_texts_change_nothing() -> None:
    env = AlfworldEnv(max_steps=2000)
    env.reset(seed=0)
    anchor = env._anchor()
    for text in hostile_actions(1000, longest=10_000):
        step = env.step(text)
        assert (step.info["valid"], step.info["anchor"], step.reward) == (False, anchor, 0.0)
