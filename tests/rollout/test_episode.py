"""The one loop: how an episode ends, what its record holds, and what never leaks out of it."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from agentbench.core.env import Env, Step
from agentbench.core.errors import ContextFull, Failure, GenerationError, PrerequisiteError, UsageError
from agentbench.core.policy import EpisodeContext, Policy, Session
from agentbench.core.records import Planned, turn_hash
from agentbench.core.registry import EnvEntry, Resolved, Variant
from agentbench.core.rewards import RewardSpec
from agentbench.core.types import Message, Reply, Sampling, Trajectory
from agentbench.policies import scripted
from agentbench.rollout.context import ContextSpec
from agentbench.rollout.episode import Setting, run_episode
from agentbench.rollout.launch import Seats
from agentbench.rollout.limits import Limits
from agentbench.rollout.place import Place
from agentbench.testing import BANDIT, ECHO, ScriptedPolicy, resolve_fake

PLANNED = Planned("key", "task", 5, 2)


def last_word(observation: str) -> str:
    return observation.split()[-1]


@dataclass
class Watched:
    """A policy whose session notes what happens to it."""

    answer: Callable[[int], Any]
    """What to do in the n-th turn: a text or a Reply to answer, an exception to raise, a number of seconds to wait."""
    name: str = "watched"
    version: int = 0
    asked: list[tuple[list[Message], Sampling, int]] = field(default_factory=list)
    closed: int = 0
    refuses: Exception | None = None

    def start(self, episode: EpisodeContext) -> Session:
        self.episode = episode
        if self.refuses is not None:
            raise self.refuses
        return self

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        self.asked.append((list(messages), sampling, seed))
        answer = self.answer(len(self.asked) - 1)
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return Reply("late")
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer)

    async def close(self) -> None:
        self.closed += 1


class Stage(Env):
    """Does what it is told to: raises, hangs or answers oddly in reset, step or close."""

    calls: tuple[str, ...] = ()
    gate = threading.Event()

    def __init__(self, split: str = "test", act: str = "") -> None:
        self.act = act
        self._perform("make")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._perform("reset")
        return "go", {"potential": 1.0}

    def step(self, action: str) -> Step:
        self._perform("step")
        info: dict[str, Any] = {"valid": True, "potential": 2.0, "terms": {"t": 0.5}, "success": False}
        if self.act == "step bare":
            info = {}
        if self.act == "step cuts in numpy":
            info |= {"valid": np.bool_(True), "terms": {"t": np.float32(0.5)}}
            return Step("cut", np.float32(0.5), False, True, info)  # type: ignore[arg-type]
        if self.act in ("step ends in doubt", "step goes on in doubt"):
            return Step("over", 0.5, "ends" in self.act, False, {**info, "success": None})
        if self.act == "step cuts":
            return Step("cut", 0.5, False, True, info)
        return Step("went", 0.5, False, False, info)

    def close(self) -> None:
        self._perform("close")

    def _perform(self, where: str) -> None:
        errors: dict[str, Exception] = {
            "raises": ValueError(f"broken {where}"),
            "times out": TimeoutError(f"slow {where}"),
            "runs dry": MemoryError(),
            "gives up": GenerationError("no level"),
        }
        act = self.act.removeprefix(f"{where} ")
        if self.act == f"{where} hangs":
            self.gate.wait(20)
        elif self.act != act and act in errors:
            raise errors[act]


STAGE = EnvEntry(
    name="stage", title="Stage", version=3, entry_point=f"{__name__}:Stage", summary="", instructions="Play.",
    max_turns=4, reward=RewardSpec(), variants={"v": Variant()},
)  # fmt: skip


def stage(act: str = "") -> Resolved:
    return resolve_fake(STAGE, act=act)


def play(
    policy: Policy,
    resolved: Resolved | None = None,
    *,
    limits: Limits | None = None,
    context: ContextSpec | None = None,
    sampling: Sampling | None = None,
    place: Place | None = None,
) -> Trajectory:
    chosen = resolved or resolve_fake(ECHO)
    setting = Setting(
        chosen,
        limits or Limits(chosen.max_turns),
        sampling or Sampling(),
        context or ContextSpec(),
        seed=11,
        place=place,
    )

    async def run() -> Trajectory:
        seats = Seats(chosen)
        seat = seats.new()
        try:
            return await run_episode(PLANNED, setting, policy, seat, retry=1)
        finally:
            await seats.close()

    return asyncio.run(run())


def test_an_episode_is_recorded_turn_by_turn() -> None:
    trajectory = play(ScriptedPolicy(last_word))
    assert (trajectory.env, trajectory.split, trajectory.task) == ("echo/3@0", "test", "task")
    assert (trajectory.seed, trajectory.trial, trajectory.retry) == (5, 2, 1)
    assert (trajectory.end, trajectory.success, trajectory.failure) == ("terminated", True, None)
    assert [turn.observation.split(":")[0] for turn in trajectory.turns] == [f"Word {n} of 3" for n in (1, 2, 3)]
    assert [turn.action for turn in trajectory.turns] == [last_word(turn.observation) for turn in trajectory.turns]
    assert [turn.reward for turn in trajectory.turns] == [1 / 3] * 3
    assert [turn.terms for turn in trajectory.turns] == [{"right": 1.0}] * 3
    assert [turn.potential for turn in trajectory.turns] == pytest.approx([0, 1 / 3, 2 / 3])
    assert trajectory.final_potential == 0.0
    assert trajectory.final_observation == "The end."
    assert all(turn.env_seconds >= 0 and turn.policy_seconds >= 0 for turn in trajectory.turns)
    assert "valid" not in trajectory.turns[0].info and "anchor" in trajectory.turns[0].info


def test_the_hashes_form_the_documented_chain() -> None:
    trajectory = play(ScriptedPolicy(last_word))
    previous = ""
    for turn, end in zip(trajectory.turns, [None, None, "terminated"], strict=True):
        previous = turn_hash(previous, turn.observation, turn.action, turn.reward, turn.terms, end)
        assert turn.hash == previous
    assert trajectory.head_hash == previous


def test_the_policy_sees_instructions_and_history_and_only_what_it_may() -> None:
    policy = Watched(lambda turn: "x")
    play(policy)
    assert [len(messages) for messages, _, _ in policy.asked] == [2, 4, 6]
    assert policy.asked[0][0][0].content == ECHO.instructions
    assert policy.episode.env is None and policy.episode.on_env_thread is None
    assert (policy.episode.key, policy.episode.task, policy.episode.entry) == ("key", "task", ECHO)


def test_every_reply_has_a_seed_of_its_own_that_repeats() -> None:
    policy, again = Watched(lambda turn: "x"), Watched(lambda turn: "x")
    play(policy)
    play(again)
    seeds = [seed for _, _, seed in policy.asked]
    assert len(set(seeds)) == 3
    assert seeds == [seed for _, _, seed in again.asked]


def test_an_environment_may_cut_an_episode_off() -> None:
    trajectory = play(Watched(lambda turn: "x"), stage("step cuts"))
    assert (trajectory.end, len(trajectory.turns), trajectory.final_potential) == ("truncated", 1, 2.0)


def test_an_environment_that_ends_in_doubt_says_neither_success_nor_failure() -> None:
    ended, went_on = play(Watched(lambda turn: "x"), stage("step ends in doubt")), stage("step goes on in doubt")
    assert (ended.end, ended.success, ended.scored) == ("terminated", None, True)
    assert play(Watched(lambda turn: "x"), went_on).success is False, "it was not solved when the turns ran out"


def test_max_turns_ends_an_episode() -> None:
    trajectory = play(ScriptedPolicy(last_word), limits=Limits(2))
    assert (trajectory.end, len(trajectory.turns), trajectory.scored) == ("max_turns", 2, True)
    assert not trajectory.success


def test_max_invalid_counts_invalid_actions_in_a_row() -> None:
    replies = ["", "x", "", "", "x"]
    trajectory = play(
        Watched(lambda turn: replies[turn]), resolve_fake(ECHO, length=5), limits=Limits(5, max_invalid=2)
    )
    assert [turn.valid for turn in trajectory.turns] == [False, True, False, False]
    assert trajectory.end == "max_invalid"


def test_a_malformed_reply_is_an_invalid_action_whatever_the_environment_says() -> None:
    tagged = ContextSpec(format="tagged")
    trajectory = play(Watched(lambda turn: "up"), stage(), limits=Limits(9, max_invalid=3), context=tagged)
    assert (trajectory.end, len(trajectory.turns)) == ("max_invalid", 3)
    assert [turn.action for turn in trajectory.turns] == [""] * 3
    assert trajectory.turns[0].reply.text == "up"


def test_max_tokens_cuts_the_last_reply_and_ends_the_episode() -> None:
    policy = Watched(lambda turn: Reply("x", token_ids=(1, 2, 3, 4)))
    trajectory = play(policy, stage(), limits=Limits(9, max_tokens=10), sampling=Sampling(max_tokens=4))
    assert [sampling.max_tokens for _, sampling, _ in policy.asked] == [4, 4, 2]
    assert (trajectory.end, len(trajectory.turns)) == ("max_tokens", 3)


def test_tokens_that_a_server_counted_count_too() -> None:
    policy = Watched(lambda turn: Reply("x", usage={"completion_tokens": 5}))
    trajectory = play(policy, stage(), limits=Limits(9, max_tokens=10))
    assert (trajectory.end, len(trajectory.turns)) == ("max_tokens", 2)


def test_a_full_context_ends_the_episode_as_max_tokens() -> None:
    policy = Watched(lambda turn: "x" if turn < 2 else ContextFull("no room"))
    trajectory = play(policy, stage())
    assert (trajectory.end, len(trajectory.turns), trajectory.failure) == ("max_tokens", 2, None)
    assert trajectory.scored and policy.closed == 1


def test_a_policy_that_thinks_too_long_is_timed_out_and_scored() -> None:
    policy = Watched(lambda turn: "x" if turn == 0 else 30.0)
    trajectory = play(policy, stage(), limits=Limits(9, max_seconds=0.3))
    assert (trajectory.end, len(trajectory.turns), trajectory.failure) == ("timeout", 1, None)
    assert trajectory.scored and policy.closed == 1


def test_a_policys_own_time_out_is_a_failure_not_the_end_of_time() -> None:
    for limits in (Limits(9), Limits(9, max_seconds=60)):
        trajectory = play(Watched(lambda turn: TimeoutError("no answer from the server")), stage(), limits=limits)
        assert trajectory.failure == {"cause": "policy", "message": "TimeoutError: no answer from the server"}


@pytest.mark.parametrize("where", ["reset", "step"])
def test_an_environment_that_does_not_answer_in_time_is_a_failure(where: str) -> None:
    Stage.gate.clear()
    began = time.monotonic()
    releasing = threading.Timer(0.6, Stage.gate.set)
    releasing.start()
    trajectory = play(Watched(lambda turn: "x"), stage(f"{where} hangs"), limits=Limits(9, max_seconds=0.2))
    releasing.join()
    assert (trajectory.end, trajectory.scored) == ("failure", False)
    assert trajectory.failure is not None and trajectory.failure["cause"] == "timeout"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("where", ["make", "reset", "step"])
@pytest.mark.parametrize(
    ("how", "cause", "message"),
    [("raises", "environment", "ValueError: broken"), ("times out", "environment", "TimeoutError: slow"),
     ("runs dry", "memory", "MemoryError")],
)  # fmt: skip
@pytest.mark.parametrize("limits", [Limits(4), Limits(4, max_seconds=60)], ids=["endless", "timed"])
def test_an_environment_that_breaks_is_a_failure_with_its_cause(
    where: str, how: str, cause: str, message: str, limits: Limits
) -> None:
    policy = Watched(lambda turn: "x")
    trajectory = play(policy, stage(f"{where} {how}"), limits=limits)
    assert trajectory.end == "failure" and trajectory.success is None and not trajectory.scored
    assert trajectory.failure is not None and trajectory.failure["cause"] == cause
    assert trajectory.failure["message"].startswith(message)
    assert policy.closed == (1 if where == "step" else 0), "a session that was started is closed, no other"


def test_an_environment_that_forgets_what_every_step_must_say_is_a_failure() -> None:
    trajectory = play(Watched(lambda turn: "x"), stage("step bare"))
    assert trajectory.failure is not None and trajectory.failure["cause"] == "environment"
    assert "valid" in trajectory.failure["message"]


def test_an_environment_that_breaks_on_closing_keeps_its_episode() -> None:
    trajectory = play(Watched(lambda turn: "x"), stage("close raises"))
    assert trajectory.end == "max_turns" and trajectory.failure is None


def test_a_policy_that_breaks_is_a_failure_with_its_cause() -> None:
    for error, cause in [
        (RuntimeError("CUDA"), "policy"),
        (Failure("provider", "429"), "provider"),
        (MemoryError(), "memory"),
    ]:
        policy = Watched(lambda turn, error=error: "x" if turn == 0 else error)  # type: ignore[misc]
        trajectory = play(policy, stage())
        assert trajectory.failure is not None and trajectory.failure["cause"] == cause
        assert len(trajectory.turns) == 1 and policy.closed == 1
        refusing = Watched(lambda turn: "x", refuses=error)
        trajectory = play(refusing, stage())
        assert trajectory.failure is not None and trajectory.failure["cause"] == cause
        assert refusing.closed == 0


def test_rewards_of_numpy_are_recorded_as_plain_numbers() -> None:
    (turn,) = play(Watched(lambda turn: "x"), stage("step cuts in numpy")).turns
    assert (turn.reward, turn.terms, turn.valid) == (0.5, {"t": 0.5}, True)
    assert {type(turn.reward), type(turn.terms["t"])} == {float}
    assert type(turn.valid) is bool


@pytest.mark.parametrize("error", [UsageError("wrong flag"), PrerequisiteError("no docker")])
def test_a_users_mistake_found_late_is_raised_and_the_session_closed(error: Exception) -> None:
    policy = Watched(lambda turn: error)
    with pytest.raises(type(error)):
        play(policy, stage())
    assert policy.closed == 1


def test_a_cancelled_episode_closes_its_session() -> None:
    asked = threading.Event()

    def answer(turn: int) -> float:
        asked.set()
        return 30.0

    policy = Watched(answer)

    async def run() -> None:
        seats = Seats(stage())
        seat = seats.new()
        episode = asyncio.create_task(run_episode(PLANNED, Setting(stage(), Limits(4)), policy, seat))
        await asyncio.to_thread(asked.wait, 10)
        episode.cancel()
        with pytest.raises(asyncio.CancelledError):
            await episode
        await seats.close()

    asyncio.run(run())
    assert policy.closed == 1


class Contained(Stage):
    """Says what its commands run in."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "go", super().reset(seed=seed, options=options)[1] | {"sandbox": {"kind": "docker", "digest": "d"}}


def test_what_an_episode_ran_in_is_in_its_record() -> None:
    contained = resolve_fake(replace(STAGE, entry_point=f"{__name__}:Contained"))
    place = Place(stage())
    assert play(scripted.nop(), stage(), place=place).sandbox is None
    place.record = {"kind": "process", "network": "none"}
    assert play(scripted.nop(), stage(), place=place).sandbox == place.record
    assert play(scripted.nop(), stage("reset raises"), place=place).sandbox == place.record
    assert play(scripted.nop(), contained).sandbox == {"kind": "docker", "digest": "d"}


class Exclusive(Env):
    """Notes when two threads are inside it at once, or a call comes after close."""

    trouble: tuple[str, ...] = ()
    entered = threading.Event()

    def __init__(self, split: str = "test") -> None:
        self.busy = threading.Lock()
        self.ended = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return "", {}

    def step(self, action: str) -> Step:
        with self.busy:
            Exclusive.entered.set()
            time.sleep(0.3)
            if self.ended:
                Exclusive.trouble += ("a step was still running after close",)
        return Step("", 0.0, False, False, {"valid": True})

    def close(self) -> None:
        if not self.busy.acquire(blocking=False):
            Exclusive.trouble += ("close came while a step was running",)
        self.ended = True


def test_an_environment_is_never_closed_while_a_step_runs() -> None:
    Exclusive.trouble = ()
    Exclusive.entered.clear()
    resolved = resolve_fake(replace(STAGE, entry_point=f"{__name__}:Exclusive"))

    async def run() -> None:
        seats = Seats(resolved)
        seat = seats.new()
        setting = Setting(resolved, Limits(9))
        episode = asyncio.create_task(run_episode(PLANNED, setting, Watched(lambda turn: "x"), seat))
        await asyncio.to_thread(Exclusive.entered.wait, 10)
        episode.cancel()
        await asyncio.gather(episode, return_exceptions=True)
        await seats.close()

    asyncio.run(run())
    assert Exclusive.trouble == ()


class Slow(Env):
    """Takes its time to start, and notes whether it was closed."""

    made = threading.Event()
    closed = threading.Event()

    def __init__(self, split: str = "test") -> None:
        Slow.made.set()
        time.sleep(0.3)

    def close(self) -> None:
        Slow.closed.set()


def test_an_environment_that_was_starting_when_it_was_cancelled_is_closed_too() -> None:
    Slow.made.clear()
    Slow.closed.clear()
    resolved = resolve_fake(replace(STAGE, entry_point=f"{__name__}:Slow"))

    async def run() -> None:
        seats = Seats(resolved)
        seat = seats.new()
        starting = asyncio.create_task(seat.start())
        await asyncio.to_thread(Slow.made.wait, 10)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await seats.close()

    asyncio.run(run())
    assert Slow.closed.is_set()


def test_the_oracle_wins_silence_loses_and_random_repeats() -> None:
    assert play(scripted.oracle()).success is True
    assert play(scripted.nop()).success is False
    assert play(scripted.echo()).success is False
    assert play(scripted.random()).head_hash == play(scripted.random()).head_hash
    assert play(scripted.oracle(), resolve_fake(BANDIT, "fair")).success is True


def test_only_scripted_policies_are_given_the_environment() -> None:
    given: list[Env | None] = []

    def start(episode: EpisodeContext) -> scripted.Chooser:
        given.append(episode.env)

        async def choose(messages: Sequence[Message], seed: int) -> str:
            return ""

        return choose

    play(scripted.Scripted("spy", start))
    assert isinstance(given[0], Env)
