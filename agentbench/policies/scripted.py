"""Policies that need no model: the floors and ceilings of every table.

    oracle      plays the environment's own solution: the ceiling
    random      plays well-formed, uninformed actions
    nop         says nothing
    echo        repeats the observation
    replay:RUN  plays the recorded actions of another run

Nop, echo and a constant must score nothing in an honest environment; random play marks what luck is worth.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from agentbench.core.env import Env
from agentbench.core.errors import Failure, Unsolvable, UsageError
from agentbench.core.policy import EpisodeContext
from agentbench.core.records import RunDirectory
from agentbench.core.seeding import generator
from agentbench.core.types import Message, Reply, Sampling


class Scripted:
    """A policy that sees the environment itself, or nothing at all.

    Args:
        name: For tables and file names.
        start: Makes the function that chooses the next action of one episode.
    """

    scripted = True
    version = 0

    def __init__(self, name: str, start: "Callable[[EpisodeContext], Chooser]") -> None:
        self.name = name
        self._start = start

    def start(self, episode: EpisodeContext) -> "ScriptedSession":
        """Open a session."""
        return ScriptedSession(self._start(episode))


Chooser = Callable[[Sequence[Message], int], Awaitable[str]]
"""Chooses an action from the messages and the seed of the reply."""


class ScriptedSession:
    """One episode of a scripted policy."""

    def __init__(self, choose: Chooser) -> None:
        self._choose = choose

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Choose the next action."""
        return Reply(await self._choose(messages, seed))

    async def close(self) -> None:
        """Nothing is held."""


def oracle() -> Scripted:
    """Play the environment's own solution, searched for once per episode."""
    return Scripted("oracle", lambda episode: _Oracle(episode).choose)


class _Oracle:
    def __init__(self, episode: EpisodeContext) -> None:
        self._env, self._call = _env_of(episode)
        self._plan: list[str] = []

    async def choose(self, messages: Sequence[Message], seed: int) -> str:
        if not self._plan:
            try:
                self._plan = list(await self._call(self._env.oracle))
            except Unsolvable:
                return ""
        return self._plan.pop(0) if self._plan else ""


def random() -> Scripted:
    """Play well-formed, uninformed actions; the reply's seed decides them."""

    def start(episode: EpisodeContext) -> Chooser:
        env, call = _env_of(episode)

        async def choose(messages: Sequence[Message], seed: int) -> str:
            env.action_random = generator("random policy", seed)
            if episode.resolved.thread_bound:
                return str(await call(env.random_action))
            return env.random_action()

        return choose

    return Scripted("random", start)


def nop() -> Scripted:
    """Say nothing."""

    async def choose(messages: Sequence[Message], seed: int) -> str:
        return ""

    return Scripted("nop", lambda _: choose)


def echo() -> Scripted:
    """Repeat the observation."""

    async def choose(messages: Sequence[Message], seed: int) -> str:
        return messages[-1].content

    return Scripted("echo", lambda _: choose)


def replay(run: Path) -> Scripted:
    """Play the recorded actions of another run, task by task and trial by trial.

    Raises:
        UsageError: `run` is no run directory.
    """
    directory = RunDirectory.open(run)
    rows = directory.scored()

    def start(episode: EpisodeContext) -> Chooser:
        row = rows.get(episode.key)
        if row is None:
            raise UsageError(f"{run} holds no episode {episode.key}: it is a run of other tasks or trials")
        return recited(turn.action for turn in directory.trajectory(row).turns)

    return Scripted(f"replay-{run.name}", start)


def recited(actions: Iterable[str]) -> Chooser:
    """Say these one after another, and nothing once they are over."""
    left = iter(actions)

    async def choose(messages: Sequence[Message], seed: int) -> str:
        try:
            return next(left)
        except StopIteration:
            raise Failure("policy", "the recording has fewer turns than this episode") from None

    return choose


def _env_of(episode: EpisodeContext) -> tuple[Env, Callable[[Callable[[], Any]], Awaitable[Any]]]:
    assert episode.env is not None, "a scripted policy is given the environment"
    assert episode.on_env_thread is not None
    return episode.env, episode.on_env_thread


SCRIPTED: dict[str, Callable[[], Scripted]] = {"random": random, "oracle": oracle, "nop": nop, "echo": echo}
"""The scripted policies that need no argument, by name."""
