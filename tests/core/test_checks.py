"""The conformance checks pass what is sound, and catch each broken rule."""

import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agentbench.core.checks import HOSTILE, check_env, hostile_actions
from agentbench.core.env import Env, Step
from agentbench.core.errors import Unsolvable
from agentbench.core.registry import EnvEntry, Resolved, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm
from agentbench.testing import BANDIT, ECHO, resolve_fake

INSTANCES: Iterator[int] = itertools.count()


class Sound(Env):
    """Say `a` or `b`, whichever the seed asks for, three times: keeps every rule."""

    def __init__(self, split: str = "test") -> None:
        self.split = split
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.word = "ab"[int(self.np_random.integers(2))]
        self.played, self.right = 0, 0
        return f"Say the letter {self.word}.", {}

    def step(self, action: str) -> Step:
        self.played += 1
        hit = action == self.word
        self.right += hit
        over = self.played == 3
        info: dict[str, Any] = {"valid": action in ("a", "b"), "terms": {"hit": float(hit)}, "success": self.right == 3}
        return Step(f"{self.right} right, {self.word} again.", float(hit), over, False, info)

    def oracle(self) -> list[str]:
        return [self.word] * (3 - self.played)

    def random_action(self) -> str:
        return str(self.action_random.choice(["a", "b"]))


class SpeechlessReset(Sound):
    def reset(self, **kwargs: Any) -> Any:
        super().reset(**kwargs)
        return None, {}


class BreaksInReset(Sound):
    def reset(self, **kwargs: Any) -> Any:
        raise KeyError("door")


class NoInfo(Sound):
    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0], None


class IntegerReward(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        return step._replace(reward=int(step.reward))


class Undecided(Sound):
    def step(self, action: str) -> Step:
        return super().step(action)._replace(truncated=None)  # type: ignore[arg-type]


class SilentOnValidity(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        del step.info["valid"]
        return step


class WholeTerms(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        step.info["terms"] = {"hit": int(step.reward)}
        return step


class LastingPotential(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        step.info["potential"] = 1.0
        return step


class EndsTwice(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        return step._replace(truncated=step.terminated)


class SecretTerm(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        step.info["terms"]["secret"] = 0.0
        return step


class WrongSum(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        return step._replace(reward=step.reward + 0.5)


class RandomOutsideTheSeed(Sound):
    def reset(self, **kwargs: Any) -> Any:
        observation, info = super().reset(**kwargs)
        return f"{observation} Instance {next(INSTANCES)}.", info


class RemembersTheLastEpisode(Sound):
    def __init__(self, split: str = "test") -> None:
        super().__init__(split)
        self.episodes = 0

    def reset(self, **kwargs: Any) -> Any:
        self.episodes += 1
        observation, info = super().reset(**kwargs)
        return f"{observation} Episode {self.episodes}.", info


class LivesInOneThread(Sound):
    def reset(self, **kwargs: Any) -> Any:
        observation, info = super().reset(**kwargs)
        return f"{observation} {threading.current_thread() is threading.main_thread()}", info


class LookingChangesIt(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        return step._replace(observation=f"{step.observation} {self.np_random.integers(10**9)}")

    def random_action(self) -> str:
        return str(self.np_random.choice(["a", "b"]))


class RaisesOnNonsense(Sound):
    def step(self, action: str) -> Step:
        return super().step(action if action in ("a", "b") else str(int(action)))


class BreaksOnUnicode(Sound):
    def step(self, action: str) -> Step:
        action.encode("ascii")
        return super().step(action)


class GoesOnAfterTheEnd(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        return step._replace(terminated=self.played >= 3)

    def __init__(self, split: str = "test") -> None:
        super().__init__(split)
        self.step = super().step.__wrapped__.__get__(self)  # type: ignore[attr-defined, method-assign]


class OracleGivesUp(Sound):
    def oracle(self) -> list[str]:
        raise Unsolvable("too hard")


class OracleIsWrong(Sound):
    def oracle(self) -> list[str]:
        return ["a", "b", "a"]


class OracleIsSlow(Sound):
    def oracle(self) -> list[str]:
        return [self.word] * 9


class OracleStumbles(Sound):
    def oracle(self) -> list[str]:
        return ["", *super().oracle()[1:]]


class OracleOverruns(Sound):
    def oracle(self) -> list[str]:
        return [self.word] * 4


class SolvedBeforeItBegins(Sound):
    def oracle(self) -> list[str]:
        return []


class SilenceWins(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        step.info["success"] = step.terminated and (action == "" or step.info["success"])
        return step


class EchoWins(Sound):
    def step(self, action: str) -> Step:
        step = super().step(action)
        step.info["success"] = step.info["success"] or "Say the letter" in action
        return step


class ForgetfulSnapshot(Sound):
    def snapshot(self) -> bytes:
        return self.word.encode()

    def restore(self, snapshot: bytes) -> None:
        self.word, self.played, self.right = snapshot.decode(), 0, 0


class SnapshotOnlyHere(Sound):
    def snapshot(self) -> bytes:
        self.kept = (self.word, self.played, self.right)
        return b""

    def restore(self, snapshot: bytes) -> None:
        self.word, self.played, self.right = getattr(self, "kept", ("a", 0, 0))


class ClosesOnce(Sound):
    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True


def entry_of(cls: type[Env]) -> EnvEntry:
    return EnvEntry(
        name=cls.__name__.lower(),
        title=cls.__name__,
        version=0,
        entry_point=f"{__name__}:{cls.__name__}",
        summary="",
        instructions="",
        max_turns=4,
        reward=RewardSpec((RewardTerm("hit"),)),
        variants={"only": Variant()},
    )


def resolved(cls: type[Env]) -> Resolved:
    return resolve_fake(entry_of(cls))


BROKEN: dict[type[Env], str] = {
    SpeechlessReset: "returned NoneType, not a text",
    BreaksInReset: "reset answers with text and info: the environment raised KeyError: 'door' (test_checks.py, line",
    NoInfo: "returned NoneType, not an info dict",
    IntegerReward: "a reward is a float, not int",
    Undecided: "truncated is a bool",
    SilentOnValidity: "info['valid'] says",
    WholeTerms: "raw terms are floats",
    LastingPotential: "the potential is 0 once the episode has ended",
    EndsTwice: "as terminated and as truncated",
    SecretTerm: "unknown terms",
    WrongSum: "is not its terms' weighing",
    RandomOutsideTheSeed: "gave another episode",
    RemembersTheLastEpisode: "in an instance that was used before",
    LivesInOneThread: "played in threads differ",
    LookingChangesIt: "calling random_action changed",
    RaisesOnNonsense: "raised ValueError",
    BreaksOnUnicode: "raised UnicodeEncodeError",
    GoesOnAfterTheEnd: "did not raise EpisodeOver",
    OracleGivesUp: "the oracle finds no plan for seed 0: too hard",
    OracleIsWrong: "ends without success",
    OracleIsSlow: "the oracle needs 9 of 4 turns",
    OracleStumbles: "the oracle's action '' was not valid",
    OracleOverruns: "goes on after the end",
    SolvedBeforeItBegins: "is solved before it begins",
    SilenceWins: "was won by saying nothing",
    EchoWins: "was won by saying nothing, a constant, or an echo",
    ForgetfulSnapshot: "the restored state went on differently",
    SnapshotOnlyHere: "another instance went on differently",
    ClosesOnce: "closed twice",
}


@pytest.mark.parametrize("entry", [ECHO, BANDIT, entry_of(Sound)], ids=lambda entry: str(entry.name))
def test_sound_environments_pass_every_check_and_each_is_reported(entry: EnvEntry) -> None:
    for variant in entry.variants:
        passed: list[str] = []
        check_env(resolve_fake(entry, variant), episodes=8, report=passed.append)
        assert len(passed) == len(set(passed)) >= 12


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: str(cls.__name__))
def test_each_broken_rule_is_caught_and_named(cls: type[Env]) -> None:
    with pytest.raises(AssertionError, match=re.escape(BROKEN[cls])):
        check_env(resolved(cls), episodes=8, hostile=60)


@pytest.mark.parametrize("cls", [RandomOutsideTheSeed, LookingChangesIt, SnapshotOnlyHere])
def test_what_does_not_claim_to_be_deterministic_is_not_held_to_it(cls: type[Env]) -> None:
    check_env(replace(resolved(cls), entry=replace(entry_of(cls), deterministic=False)))


def test_what_is_bound_to_its_thread_is_not_played_in_threads() -> None:
    bound = replace(resolved(LivesInOneThread), entry=replace(entry_of(LivesInOneThread), thread_bound=True))
    check_env(bound)


def test_an_environment_without_an_oracle_may_pass() -> None:
    check_env(resolved(WithoutOracle))


class WithoutOracle(Sound):
    def oracle(self) -> list[str]:
        raise NotImplementedError


def test_hostile_actions_are_as_many_as_asked_for_and_the_same_each_time() -> None:
    actions = list(hostile_actions(300))
    assert len(actions) == 300
    assert actions == list(hostile_actions(300))
    assert set(HOSTILE) <= set(actions)
    assert max(map(len, actions)) == 1_000_000
    assert list(hostile_actions(3)) == list(HOSTILE[:3])
