"""Many episodes at once: streamed, independent of order, and stoppable."""

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from agentbench.core.env import Env, Step
from agentbench.core.errors import UsageError
from agentbench.core.policy import EpisodeContext, Policy
from agentbench.core.records import Planned
from agentbench.core.registry import EnvEntry, Resolved, Variant
from agentbench.core.rewards import RewardSpec
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies import scripted
from agentbench.rollout import launch, pool
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.pool import Played
from agentbench.testing import ECHO, ScriptedPolicy, resolve_fake


def plan(count: int) -> list[Planned]:
    return [Planned(f"key{seed}", f"task{seed}", seed, 0) for seed in range(count)]


def setting(resolved: Resolved, **limits: Any) -> Setting:
    return Setting(resolved, Limits(resolved.max_turns, **limits))


def play(chosen: Setting, policy: Policy, count: int, *, jobs: int = 1, retries: int = 0) -> list[Played]:
    async def run() -> list[Played]:
        return [played async for played in pool.play(plan(count), chosen, policy, jobs=jobs, retries=retries)]

    return asyncio.run(run())


class Playground(Env):
    """Notes who calls it; slow, hanging or breaking on the seeds that it is told."""

    living = 0
    threads: dict[int, set[int]]
    guard = threading.Lock()
    gate = threading.Event()

    def __init__(self, split: str = "test", slow: Sequence[int] = (), hang: Sequence[int] = ()) -> None:
        self.slow, self.hang = slow, hang
        self.used = {threading.get_ident()}
        with self.guard:
            Playground.living += 1
            Playground.threads[id(self)] = self.used

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.used.add(threading.get_ident())
        if seed in self.hang:
            self.gate.wait(3)
        self.episode = seed
        return f"seed {seed}", {}

    def step(self, action: str) -> Step:
        self.used.add(threading.get_ident())
        if self.episode in self.slow:
            time.sleep(0.5)
        return Step("", 1.0, True, False, {"valid": True, "success": True})

    def random_action(self) -> str:
        self.used.add(threading.get_ident())
        return "x"

    def oracle(self) -> list[str]:
        self.used.add(threading.get_ident())
        return ["x"]

    def close(self) -> None:
        self.used.add(threading.get_ident())
        with self.guard:
            Playground.living -= 1


PLAYGROUND = EnvEntry(
    name="playground", title="Playground", version=0, entry_point=f"{__name__}:Playground", summary="",
    instructions="", max_turns=3, reward=RewardSpec(), variants={"v": Variant()},
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh_playground() -> None:
    Playground.living = 0
    Playground.threads = {}
    Playground.gate = threading.Event()


@pytest.mark.parametrize("jobs", [1, 3, 50])
def test_every_planned_episode_is_played_once(jobs: int) -> None:
    played = play(setting(resolve_fake(PLAYGROUND)), scripted.nop(), 20, jobs=jobs)
    assert Counter(each.planned.key for each in played) == Counter(f"key{seed}" for seed in range(20))
    assert all(each.trajectory.seed == each.planned.seed for each in played)
    assert Playground.living == 0
    assert len(Playground.threads) <= jobs, "an environment is used again by the next episode"


def test_an_empty_plan_plays_nothing() -> None:
    assert play(setting(resolve_fake(ECHO)), scripted.nop(), 0, jobs=4) == []


def test_a_slow_episode_does_not_hold_the_fast_ones() -> None:
    order = [
        each.planned.seed for each in play(setting(resolve_fake(PLAYGROUND, slow=(0,))), scripted.nop(), 30, jobs=2)
    ]
    assert order[-1] == 0, "the fast episodes waited for the slow one"
    assert order[:-1] == list(range(1, 30)), "episodes are not streamed as they end"


def test_a_policy_that_waits_holds_nobody_else() -> None:
    class Patient(ScriptedPolicy):
        async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
            if messages[-1].content == "seed 0":
                await asyncio.sleep(0.3)
            return Reply("x")

    order = [each.planned.seed for each in play(setting(resolve_fake(PLAYGROUND)), Patient(str), 30, jobs=2)]
    assert order == [*range(1, 30), 0]


def test_replies_are_asked_for_concurrently() -> None:
    asked = most = 0

    class Counting(ScriptedPolicy):
        async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
            nonlocal asked, most
            asked += 1
            most = max(most, asked)
            await asyncio.sleep(0.02)
            asked -= 1
            return Reply("x")

    play(setting(resolve_fake(PLAYGROUND)), Counting(str), 24, jobs=8)
    assert most == 8


@pytest.mark.parametrize("make", [scripted.oracle, scripted.random, scripted.echo])
def test_results_do_not_depend_on_how_many_play_at_once(make: Callable[[], Policy]) -> None:
    def heads(jobs: int) -> dict[str, tuple[str, float, bool | None, str]]:
        chosen = setting(resolve_fake(ECHO, length=6))
        return {
            each.planned.key: (
                each.trajectory.head_hash,
                each.trajectory.total_reward,
                each.trajectory.success,
                each.trajectory.end,
            )
            for each in play(chosen, make(), 60, jobs=jobs)
        }

    assert heads(1) == heads(32)


def test_a_failure_is_yielded_and_played_again_while_retries_are_left() -> None:
    chosen = setting(resolve_fake(ECHO, fail_on=(2,)))
    played = play(chosen, scripted.oracle(), 5, jobs=2, retries=2)
    assert [(e.trajectory.retry, e.trajectory.end) for e in played if e.planned.seed == 2] == [
        (0, "failure"), (1, "failure"), (2, "failure"),
    ]  # fmt: skip
    assert all(e.trajectory.success for e in played if e.planned.seed != 2)
    assert len(played) == 7


def test_an_episode_that_failed_once_is_scored_the_second_time() -> None:
    policy = ScriptedPolicy(lambda seen: seen.split()[-1], fail_on=frozenset({0}))
    first, *_, last = play(setting(resolve_fake(ECHO)), policy, 3, retries=1)
    assert (first.planned.seed, first.trajectory.end, first.trajectory.failure) == (
        0, "failure", {"cause": "provider", "message": "the provider is having a bad day"},
    )  # fmt: skip
    assert (last.planned.seed, last.trajectory.retry, last.trajectory.success) == (0, 1, True)


def test_a_broken_environment_is_replaced_before_the_next_episode() -> None:
    play(setting(resolve_fake(replace(PLAYGROUND, entry_point=f"{__name__}:Breaking"))), scripted.nop(), 4)
    assert len(Playground.threads) == 4
    assert Playground.living == 0


class Breaking(Playground):
    def step(self, action: str) -> Step:
        raise RuntimeError("broken for good")


class Misled(ScriptedPolicy):
    """Finds late that the user asked for something impossible."""

    def start(self, episode: EpisodeContext) -> "Misled":
        if episode.key == "key3":
            raise UsageError("this can never work")
        return self


class Buggy(ScriptedPolicy):
    """Answers with something that is no reply: no failure of the world, but a mistake in a program."""

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        reply = await super().reply(messages, sampling, seed=seed)
        return reply if self.replies < 6 else None  # type: ignore[return-value]


@pytest.mark.parametrize(("make", "error"), [(Misled, UsageError), (Buggy, AttributeError)])
def test_what_no_retry_would_mend_stops_everything_and_closes_every_seat(
    make: type[ScriptedPolicy], error: type[Exception]
) -> None:
    seen: list[Played] = []

    async def run() -> None:
        chosen = setting(resolve_fake(PLAYGROUND, slow=(2,)))
        async for played in pool.play(plan(50), chosen, make(str), jobs=4, retries=3):
            seen.append(played)  # noqa: PERF401 - what was seen before the end is looked at

    with pytest.raises(error):
        asyncio.run(run())
    assert Playground.living == 0
    assert len(seen) < 10


def test_a_listener_that_stops_listening_stops_the_episodes_and_closes_every_seat() -> None:
    async def run() -> int:
        chosen = setting(resolve_fake(PLAYGROUND))
        async with aclosing(pool.play(plan(1000), chosen, scripted.nop(), jobs=4)) as stream:
            await anext(stream)
        return Playground.living

    assert asyncio.run(run()) == 0


def test_cancelling_closes_every_seat() -> None:
    chosen = setting(resolve_fake(PLAYGROUND, slow=range(1000)))

    async def consume(started: asyncio.Event) -> None:
        async with aclosing(pool.play(plan(1000), chosen, scripted.nop(), jobs=3)) as stream:
            async for _ in stream:
                started.set()

    async def run() -> None:
        started = asyncio.Event()
        task = asyncio.create_task(consume(started))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert Playground.living == 0


@pytest.mark.parametrize("make", [scripted.oracle, scripted.random])
def test_an_environment_that_is_bound_to_a_thread_sees_only_that_one(make: Callable[[], Policy]) -> None:
    bound = resolve_fake(replace(PLAYGROUND, thread_bound=True))
    play(setting(bound), make(), 24, jobs=3)
    assert len(Playground.threads) == 3
    assert all(len(used) == 1 for used in Playground.threads.values())
    assert len(set.union(*Playground.threads.values())) == 3
    assert threading.get_ident() not in set.union(*Playground.threads.values())
    assert Playground.living == 0


def test_environments_never_run_on_the_event_loops_thread() -> None:
    play(setting(resolve_fake(PLAYGROUND)), scripted.oracle(), 12, jobs=4)
    assert threading.get_ident() not in set.union(*Playground.threads.values())


def test_threads_end_with_the_pool() -> None:
    def alive() -> int:
        return sum(thread.name.startswith("agentbench-env") for thread in threading.enumerate())

    before = alive()
    for bound in (False, True):
        play(setting(resolve_fake(replace(PLAYGROUND, thread_bound=bound))), scripted.nop(), 8, jobs=4)
    deadline = time.monotonic() + 10
    while alive() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive() <= before


def test_environments_that_hang_do_not_starve_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "CLOSE_SECONDS", 0.05)
    hanging = range(40)  # more than there are shared threads
    chosen = setting(resolve_fake(PLAYGROUND, hang=hanging), max_seconds=0.2)
    played = play(chosen, scripted.nop(), 60, jobs=20)
    Playground.gate.set()
    scored = {each.planned.seed for each in played if each.trajectory.scored}
    assert scored == set(range(40, 60))
    assert all(each.trajectory.failure["cause"] == "timeout" for each in played if each.trajectory.failure)


HANGING = """
import asyncio, threading
from agentbench.core.env import Env
from agentbench.core.records import Planned
from agentbench.policies import scripted
from agentbench.rollout import launch, pool
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.testing import ECHO, EchoEnv, resolve_fake
from dataclasses import replace

class Hanging(EchoEnv):
    def step(self, action):
        threading.Event().wait()

launch.CLOSE_SECONDS = 0.1
resolved = resolve_fake(replace(ECHO, entry_point="__main__:Hanging"))

async def main():
    async for played in pool.play([Planned("k", "t", 0, 0)], Setting(resolved, Limits(3, max_seconds=0.2)),
                                  scripted.oracle(), jobs=1):
        print(played.trajectory.failure["cause"])

asyncio.run(main())
"""


def test_an_environment_that_hangs_does_not_keep_the_process_from_ending() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "timeout\n", "")
