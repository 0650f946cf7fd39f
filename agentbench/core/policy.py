"""A policy answers. One method to start a session, one to reply: anybody's object fits.

A session belongs to one episode and sees the whole conversation at each turn; what it keeps between turns (a key-value
cache, a plan) is its own affair. Replies are asynchronous, so that one model can serve many episodes at once.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from agentbench.core.env import Env
from agentbench.core.registry import EnvEntry, Resolved
from agentbench.core.types import Message, Reply, Sampling

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EpisodeContext:
    """What a policy may know of the episode that it is about to play."""

    key: str
    """The planned episode's key: the same in a resumed or repeated run."""
    resolved: Resolved
    """The environment, resolved: entry, variant, arguments."""
    task: str
    """The task's key."""
    env: Env | None = None
    """The environment itself; only for policies with `scripted = True`."""
    on_env_thread: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None
    """Runs a function where the environment's own calls run; a scripted policy does its searching there."""

    @property
    def entry(self) -> EnvEntry:
        """What is known of the environment without starting it."""
        return self.resolved.entry


class Session(Protocol):
    """A policy's side of one episode."""

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Answer the conversation so far.

        Args:
            messages: The whole context of this turn, the new observation last.
            sampling: How to draw the reply.
            seed: Decides the draw; equal conversations and seeds give equal replies.
        """
        ...

    async def close(self) -> None:
        """Free what the session holds. Idempotent; also called on cancellation."""
        ...


class Policy(Protocol):
    """Something that plays."""

    name: str
    """Short, for file names and tables."""
    version: int
    """The number of weight updates so far; 0 for what does not learn."""

    def start(self, episode: EpisodeContext) -> Session:
        """Open a session for one episode."""
        ...


def is_scripted(policy: Policy) -> bool:
    """Tell whether a policy plays by looking at the environment itself (oracle, random, replay)."""
    return bool(getattr(policy, "scripted", False))
