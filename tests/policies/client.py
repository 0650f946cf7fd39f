"""Short ways to have a conversation with the provider."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agentbench.core.policy import EpisodeContext
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies.openai import OpenAIPolicy
from agentbench.testing import ECHO, resolve_fake
from tests.policies.server import Provider

T = TypeVar("T")
EPISODE = EpisodeContext("key", resolve_fake(ECHO), "task")


def user(content: str, *images: bytes) -> Message:
    return Message("user", content, images)


def connect(provider: Provider, **settings: Any) -> OpenAIPolicy:
    return OpenAIPolicy("tiny", base_url=provider.url, **{"backoff": 0.02, "timeout": 30.0, **settings})


def run(policy: OpenAIPolicy, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work in an event loop of its own, then close the policy."""

    async def whole() -> T:
        try:
            return await work()
        finally:
            await policy.aclose()

    return asyncio.run(whole())


def ask(policy: OpenAIPolicy, *messages: Message, sampling: Sampling | None = None, seed: int = 1) -> Reply:
    """Get one reply in a session of its own."""
    return run(policy, lambda: policy.start(EPISODE).reply(messages, sampling or Sampling(), seed=seed))
