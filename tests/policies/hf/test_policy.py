"""A checkpoint plays: what transformers would say, recorded exactly, whoever shares the batch."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest
import torch

from agentbench.core.errors import ContextFull, Failure
from agentbench.core.policy import Policy
from agentbench.core.types import Message, Reply, Sampling
from agentbench.testing import Architecture
from tests.policies.hf.conftest import Load, Make
from tests.policies.hf.play import GREEDY, SAMPLED, contexts, generated, play, play_one, scored, wait_for_a_token

ARCHITECTURES = get_args(Architecture)
HELLO = [Message("user", "Hello")]


def test_it_is_a_policy(make: Make) -> None:
    policy: Policy = make()
    assert policy.name and policy.version == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_replies_are_those_of_generate_turn_by_turn(make: Make, load: Load, architecture: Architecture) -> None:
    checkpoint = load(architecture)
    for context, reply in contexts(play_one(make(checkpoint), GREEDY)):
        assert list(reply.token_ids) == generated(checkpoint, context, GREEDY.max_tokens)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED, replace(SAMPLED, top_p=0.7, top_k=50)])
def test_records_equal_a_fresh_forward(make: Make, load: Load, architecture: Architecture, sampling: Sampling) -> None:
    checkpoint = load(architecture)
    for context, reply in contexts(play_one(make(checkpoint), sampling, seed=5)):
        logprobs, entropies = scored(checkpoint, context, reply, sampling.temperature or 1.0)
        torch.testing.assert_close(torch.tensor(reply.logprobs).double(), logprobs, atol=1e-5, rtol=0)
        torch.testing.assert_close(torch.tensor(reply.entropies).double(), entropies, atol=1e-5, rtol=0)


def test_a_reply_does_not_depend_on_who_shares_its_batch(make: Make) -> None:
    """Exact here; in general up to ties: draws within 1e-6 of a boundary, best logits that close to each other."""
    samplings = [replace(SAMPLED, max_tokens=4 + i % 7, temperature=0.5 * (i % 4), top_k=i % 3) for i in range(32)]
    policy = make(batch_size=32)

    async def together() -> list[list[Reply]]:
        return await asyncio.gather(*(play(policy, sampling, seed=i) for i, sampling in enumerate(samplings)))

    crowd = asyncio.run(together())
    for i in (0, 1, 2, 3, 17, 30):
        alone = play_one(policy, samplings[i], seed=i)
        assert [reply.token_ids for reply in alone] == [reply.token_ids for reply in crowd[i]]


def test_the_seed_decides_the_draw(make: Make) -> None:
    policy = make()
    first, again, other = (play_one(policy, SAMPLED, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert [reply.token_ids for reply in first] != [reply.token_ids for reply in other]


def test_only_what_a_turn_adds_is_prefilled(make: Make) -> None:
    policy = make()
    replies = play_one(policy, GREEDY)
    unseen = 0
    for reply in replies:
        assert reply.usage["prefilled_tokens"] == len(reply.prompt_ids) + unseen
        unseen = 1  # the last sampled token has no keys until the next turn feeds it
    assert policy.counters.prefilled_tokens == sum(len(reply.prompt_ids) + 1 for reply in replies) - 1
    assert [reply.fresh_context for reply in replies] == [True, False, False, False]


def test_usage_counts_the_whole_prompt(make: Make) -> None:
    for context, reply in contexts(play_one(make(), SAMPLED)):
        assert reply.usage["prompt_tokens"] == len(context)
        assert reply.usage["completion_tokens"] == len(reply.token_ids) == len(reply.logprobs) == len(reply.entropies)


def test_a_reply_that_is_cut_off_ends_with_length(make: Make) -> None:
    reply = play_one(make(), Sampling(max_tokens=3))[0]
    assert (reply.finish, len(reply.token_ids)) == ("length", 3)


def test_the_stop_token_is_kept_in_the_ids_and_not_in_the_text(make: Make, load: Load) -> None:
    end = load("qwen3").tokenizer.eos_token_id
    policy = make()

    async def together() -> list[list[Reply]]:
        sampling = Sampling(temperature=1.0, max_tokens=200)
        return await asyncio.gather(*(play(policy, sampling, seed=i, observations=["Go."]) for i in range(8)))

    replies = [reply for replies in asyncio.run(together()) for reply in replies]
    stopped = [reply for reply in replies if reply.finish == "stop"]
    assert stopped and all(reply.token_ids[-1] == end and end not in reply.token_ids[:-1] for reply in stopped)
    assert not any("<|im_end|>" in reply.text for reply in stopped)


def test_a_stop_text_ends_the_reply_and_stays_in_it(make: Make) -> None:
    policy = make()
    whole = play_one(policy, replace(SAMPLED, max_tokens=60))[0]
    stop = whole.text[7:9]
    cut = play_one(policy, replace(SAMPLED, max_tokens=60, stop=("never said", stop)))[0]
    assert cut.finish == "stop"
    assert cut.text.endswith(stop) and cut.text.count(stop) == 1
    assert whole.token_ids[: len(cut.token_ids)] == cut.token_ids


def test_a_long_prompt_is_prefilled_in_chunks(make: Make, load: Load) -> None:
    policy = make()
    replies = asyncio.run(play(policy, GREEDY, observations=["a wall " * 400, "and a door"]))
    for context, reply in contexts(replies):
        logprobs, _ = scored(load("qwen3"), context, reply, 1.0)
        torch.testing.assert_close(torch.tensor(reply.logprobs).double(), logprobs, atol=1e-5, rtol=0)


def test_more_sessions_than_rows_all_get_their_replies(make: Make) -> None:
    policy = make(batch_size=2)

    async def together() -> list[list[Reply]]:
        return await asyncio.gather(*(play(policy, SAMPLED, seed=i) for i in range(9)))

    crowd, alone = asyncio.run(together()), [play_one(policy, SAMPLED, seed=i) for i in range(9)]
    assert [[r.token_ids for r in replies] for replies in crowd] == [
        [r.token_ids for r in replies] for replies in alone
    ]


def test_little_memory_costs_prefills_and_changes_no_reply(make: Make) -> None:
    roomy, tight = make(), make(memory_limit=3 * 512 * 512)

    async def together(policy: object) -> list[list[Reply]]:
        return await asyncio.gather(*(play(policy, SAMPLED, seed=i) for i in range(9)))  # type: ignore[arg-type]

    wide, narrow = asyncio.run(together(roomy)), asyncio.run(together(tight))
    assert [[r.token_ids for r in replies] for replies in wide] == [
        [r.token_ids for r in replies] for replies in narrow
    ]
    assert tight.arena_bytes <= 3 * 512 * 512 < roomy.arena_bytes
    assert tight.counters.prefilled_tokens > roomy.counters.prefilled_tokens


def test_a_context_that_cannot_fit_into_memory_fails_alone(make: Make) -> None:
    policy = make(memory_limit=100 * 512)

    async def ask(length: int) -> Reply:
        session = policy.start()
        return await session.reply([Message("user", "x" * length)], Sampling(max_tokens=4), seed=0)

    async def both() -> Sequence[Reply | BaseException]:
        return await asyncio.gather(ask(500), ask(5), return_exceptions=True)

    failed, fine = asyncio.run(both())
    assert isinstance(failed, Failure) and failed.cause == "memory"
    assert isinstance(fine, Reply)


def test_a_full_context_is_said_so_and_a_nearly_full_one_cuts_the_reply(make: Make) -> None:
    policy = make(context_limit=60)

    async def ask(length: int) -> Reply:
        return await policy.start().reply([Message("user", "x" * length)], Sampling(max_tokens=50), seed=0)

    size = asyncio.run(ask(1)).usage["prompt_tokens"] - 1
    reply = asyncio.run(ask(57 - int(size)))
    assert (len(reply.token_ids), reply.finish) == (3, "length")
    with pytest.raises(ContextFull, match="60"):
        asyncio.run(ask(60 - int(size)))


def test_a_cancelled_reply_frees_its_row(make: Make) -> None:
    policy = make(batch_size=1)

    async def cancel_and_ask() -> tuple[int, Reply]:
        endless = policy.start()
        task = asyncio.create_task(endless.reply(HELLO, Sampling(max_tokens=3900), seed=0))
        await asyncio.to_thread(wait_for_a_token, policy)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await endless.close()
        await endless.close()
        reply = await policy.start().reply(HELLO, GREEDY, seed=0)
        return policy.counters.replies, reply

    replies, reply = asyncio.run(cancel_and_ask())
    assert replies == 1  # the cancelled one never ended
    assert reply.token_ids == asyncio.run(policy.start().reply(HELLO, GREEDY, seed=0)).token_ids


def test_a_session_goes_on_after_a_cancelled_reply(make: Make) -> None:
    policy = make()

    async def interrupted() -> Reply:
        session = policy.start()
        task = asyncio.create_task(session.reply(HELLO, Sampling(max_tokens=3900), seed=0))
        await asyncio.sleep(0.05)
        task.cancel()
        return await session.reply(HELLO, GREEDY, seed=0)

    assert asyncio.run(interrupted()).token_ids == asyncio.run(policy.start().reply(HELLO, GREEDY, seed=0)).token_ids
