"""The arena under pressure: rows of all ages come, shrink, grow, leave and lose their slots, and no reply changes."""

import asyncio

import numpy as np
import pytest

from agentbench.core.seeding import generator
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies.hf import HFPolicy
from tests.policies.hf.conftest import Make

POSITION = 2 * 2 * 2 * 16 * 4
"""Bytes that the tiny model keeps of a position: keys and values of 2 layers, 2 heads, 16 wide, in float32."""


async def wander(policy: HFPolicy, seed: int, turns: int) -> list[Reply]:
    """Play turns of all lengths; forget the past now and then, and pause now and then."""
    random: np.random.Generator = generator("wander", seed)
    session = policy.start()
    messages: list[Message] = []
    replies = []
    for turn in range(turns):
        if random.random() < 0.3:
            messages = []
        messages.append(Message("user", "x" * int(random.integers(1, 120))))
        sampling = Sampling(temperature=float(random.integers(2)), max_tokens=int(random.integers(1, 25)))
        replies.append(await session.reply(messages, sampling, seed=1000 * seed + turn))
        messages.append(Message("assistant", replies[-1].text))
        await asyncio.sleep(0.002 * int(random.integers(3)))
    await session.close()
    return replies


@pytest.mark.parametrize(("batch_size", "slots"), [(32, 100), (5, 4), (3, 100), (32, 1)])
def test_whatever_happens_in_the_arena_every_reply_is_the_one_that_was_given_alone(
    make: Make, scale: float, batch_size: int, slots: int
) -> None:
    count = int(10 * scale)
    crowded, quiet = make(batch_size=batch_size, memory_limit=slots * 1024 * POSITION), make(batch_size=1)

    async def together() -> list[list[Reply]]:
        return await asyncio.gather(*(wander(crowded, seed, turns=6) for seed in range(count)))

    for seed, replies in enumerate(asyncio.run(together())):
        alone = asyncio.run(wander(quiet, seed, turns=6))
        assert [reply.token_ids for reply in replies] == [reply.token_ids for reply in alone]
        assert [reply.fresh_context for reply in replies] == [reply.fresh_context for reply in alone]
    assert crowded.arena_bytes <= slots * 1024 * POSITION


def test_a_batch_with_gaps_writes_what_each_row_would_have_written_alone(make: Make) -> None:
    policy = make()

    async def ask(index: int, tokens: int) -> Reply:
        session = policy.start()
        reply = await session.reply([Message("user", "x" * index)], Sampling(max_tokens=tokens), seed=index)
        await session.close()
        return reply

    async def together() -> list[Reply]:
        return await asyncio.gather(*(ask(index, 3 if index in (4, 9) else 30) for index in range(16)))

    for index, reply in enumerate(asyncio.run(together())):
        alone = asyncio.run(ask(index, len(reply.token_ids)))
        assert alone.token_ids == reply.token_ids
