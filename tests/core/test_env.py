"""What `Env` adds around an author's reset and step."""

from typing import Any

import numpy as np
import pytest

from agentbench.core.env import Env, Step
from agentbench.core.errors import EpisodeOver
from agentbench.testing import BanditEnv, EchoEnv


class Both(Env):
    """Ends in two ways at once."""

    def step(self, action: str) -> Step:
        return Step("", 0.0, True, True, {"valid": True})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=seed)


class Counter(Env):
    """Counts; keeps its state in a snapshot of its own, and calls its own step."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.count = int((options or {}).get("start", 0))
        return str(self.count), {}

    def step(self, action: str) -> Step:
        if action == "twice":
            self.step("once")
        self.count += 1
        return Step(str(self.count), 0.0, self.count >= 5, False, {"valid": True})

    def random_action(self) -> str:
        return str(self.action_random.integers(1000))

    def snapshot(self) -> bytes:
        return self.count.to_bytes(2, "big") + b"\n\x00"

    def restore(self, snapshot: bytes) -> None:
        self.count = int.from_bytes(snapshot[:2], "big")


class CounterChild(Counter):
    """An author's subclass of an author's environment: its methods call the parent's."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> Step:
        return super().step(action)


def words_of(env: EchoEnv, seed: int) -> list[str]:
    env.reset(seed=seed)
    return list(env.words)


@pytest.mark.parametrize("env", [EchoEnv(), BanditEnv(), Counter()])
def test_a_step_before_the_first_reset_raises(env: Env) -> None:
    with pytest.raises(EpisodeOver, match="call reset first"):
        env.step("left")


def test_a_step_after_the_end_raises_until_the_next_reset() -> None:
    env = BanditEnv()
    env.reset(seed=0)
    assert env.step("left").terminated
    with pytest.raises(EpisodeOver):
        env.step("left")
    env.reset(seed=0)
    assert env.step("left").reward == 1.0


def test_an_episode_cannot_be_terminated_and_truncated() -> None:
    env = Both()
    env.reset(seed=0)
    with pytest.raises(AssertionError, match="terminated and as truncated"):
        env.step("")


def test_a_plain_tuple_becomes_a_step_with_names() -> None:
    class Old(Both):
        def step(self, action: str) -> Step:
            return ("seen", 1.0, False, False, {"valid": True})  # type: ignore[return-value]

    env = Old()
    env.reset(seed=0)
    step = env.step("x")
    assert isinstance(step, Step)
    assert step.observation == "seen"


def test_equal_seeds_give_equal_episodes_and_other_seeds_other_ones() -> None:
    env = EchoEnv(length=8)
    assert words_of(env, 7) == words_of(EchoEnv(length=8), 7) == words_of(env, 7)
    assert words_of(env, 7) != words_of(env, 8)


def test_without_a_seed_one_is_drawn_from_the_environments_generator_and_kept() -> None:
    env = EchoEnv(length=8)
    env.reset(seed=3)
    env.reset()
    drawn = list(env.words)
    state = env.snapshot()
    env.reset()
    assert list(env.words) != drawn, "two resets without a seed drew the same episode"
    other = EchoEnv(length=8)
    other.restore(state)
    assert other.words == drawn, "the drawn seed was not the one that was kept"
    again = EchoEnv(length=8)
    again.reset(seed=3)
    again.reset()
    assert again.words == drawn, "the drawn seed does not follow from the first"


def test_looking_for_a_random_action_does_not_disturb_the_episode() -> None:
    watched, plain = EchoEnv(length=8), EchoEnv(length=8)
    watched.reset(seed=1)
    plain.reset(seed=1)
    for _ in range(100):
        watched.random_action()
    watched.reset()
    plain.reset()
    assert watched.words == plain.words


def test_random_actions_depend_on_the_seed_alone() -> None:
    def actions(seed: int) -> list[str]:
        env = Counter()
        env.reset(seed=seed)
        return [env.random_action() for _ in range(5)]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)


def test_global_generators_stay_untouched() -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    env = EchoEnv()
    env.reset(seed=1)
    env.random_action()
    env.step("red")
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]  # noqa: NPY002


def test_the_default_snapshot_plays_seed_options_and_actions_again() -> None:
    env = EchoEnv(length=4)
    env.reset(seed=5)
    right = env.oracle()
    env.step(right[0])
    env.step("nonsense")
    state = env.snapshot()
    env.step(right[2])
    env.step(right[3])
    other = EchoEnv(length=4)
    for player in (env, other):
        player.restore(state)
        assert player.said == [True, False]
        assert player.step(right[2]).info["terms"] == {"right": 1.0}
        assert not player.step(right[3]).info["success"]


def test_a_snapshot_of_an_ended_episode_is_still_over_after_restore() -> None:
    for env, action in ((BanditEnv(), "left"), (Counter(), "once")):
        env.reset(seed=0, options={"start": 4})
        env.step(action)
        state = env.snapshot()
        env.reset(seed=1)
        env.restore(state)
        with pytest.raises(EpisodeOver):
            env.step(action)


def test_a_snapshot_of_the_authors_own_keeps_the_contract() -> None:
    env = Counter()
    env.reset(seed=9, options={"start": 1})
    env.step("once")
    state = env.snapshot()
    fresh = Counter()
    fresh.restore(state)
    assert fresh.count == 2
    assert fresh.step("once").observation == "3"
    env.restore(state)
    fresh.restore(state)
    assert env.random_action() == fresh.random_action()


def test_an_author_may_call_the_own_step_and_the_parents() -> None:
    for env in (Counter(), CounterChild()):
        env.reset(seed=0)
        assert env.step("twice").observation == "2"
        assert env._actions == ["twice"], "an inner call was counted as a turn"
        env.step("twice")
        assert env.step("once").terminated
        with pytest.raises(EpisodeOver):
            env.step("once")


def test_an_exception_in_a_step_does_not_end_the_supervision() -> None:
    env = EchoEnv(fail_on=[0])
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="collapsed"):
        env.step("red")
    env.reset(seed=1)
    for word in env.oracle():
        env.step(word)
    with pytest.raises(EpisodeOver):
        env.step("red")


def test_what_an_author_leaves_out_says_so() -> None:
    class Bare(Env):
        pass

    env = Bare()
    for method in (env.oracle, env.random_action):
        with pytest.raises(NotImplementedError):
            method()
    env.close()
    env.close()
