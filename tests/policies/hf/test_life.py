"""The engine's life: new weights, critics, faults, closing, memory."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Sequence

import pytest
import torch

from agentbench.core.errors import Failure
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies.hf import HFPolicy, HFSession
from agentbench.policies.slots import SlotBackend
from tests.policies.hf.conftest import Load, Make
from tests.policies.hf.play import GREEDY, contexts, embedding, play, play_one, wait_for_a_token

HELLO = [Message("user", "Hello")]


def broken_head(hidden: torch.Tensor) -> torch.Tensor:
    raise ArithmeticError("the critic is confused")


async def gather_all(policy: HFPolicy, count: int) -> Sequence[object]:
    return await asyncio.gather(*(play(policy, GREEDY, seed=i) for i in range(count)), return_exceptions=True)


def test_new_weights_change_the_version_and_forget_all_caches(make: Make, load: Load) -> None:
    checkpoint = load("llama")
    policy = make(checkpoint)
    weight = embedding(checkpoint)
    before = weight.detach().clone()

    def change() -> None:
        with torch.no_grad():
            weight.mul_(1.5)

    async def turns() -> list[Reply]:
        session = policy.start()
        first = await session.reply(HELLO, GREEDY, seed=0)
        assert policy.update(change) == policy.version == 1
        told = [*HELLO, Message("assistant", first.text), Message("user", "Again")]
        return [first, await session.reply(told, GREEDY, seed=1)]

    first, second = asyncio.run(turns())
    assert (first.policy_version, second.policy_version) == (0, 1)
    assert not second.fresh_context
    assert second.usage["prefilled_tokens"] == second.usage["prompt_tokens"]
    with torch.no_grad():
        weight.copy_(before)


def test_an_update_waits_for_the_replies_in_progress(make: Make) -> None:
    policy = make()

    async def during() -> Reply:
        task = asyncio.create_task(policy.start().reply(HELLO, Sampling(max_tokens=100, temperature=1.0), seed=3))
        await asyncio.to_thread(wait_for_a_token, policy)
        await asyncio.to_thread(policy.update)
        return await task

    assert asyncio.run(during()).policy_version == 0
    assert policy.version == 1


def test_an_update_that_fails_reaches_its_caller_and_leaves_the_version(make: Make) -> None:
    policy = make()

    def fail() -> None:
        raise ArithmeticError("diverged")

    with pytest.raises(ArithmeticError, match="diverged"):
        policy.update(fail)
    assert policy.version == 0


def test_a_critic_records_a_value_per_token(make: Make, load: Load) -> None:
    policy = make()
    policy.set_value_head(lambda hidden: hidden.sum(-1))
    model = load("qwen3").model
    for context, reply in contexts(play_one(policy, GREEDY)):
        with torch.no_grad():
            ids = torch.tensor([[*context, *reply.token_ids]], device=model.device)
            states = model(ids, output_hidden_states=True).hidden_states[-1]
        assert reply.values == pytest.approx(states[0, len(context) - 1 : -1].sum(-1).tolist(), abs=1e-3)
    policy.set_value_head(None)
    assert policy.version == 0 and play_one(policy, GREEDY)[0].values is None


def test_a_fault_in_the_engine_reaches_everybody_who_waits(make: Make) -> None:
    policy = make(batch_size=2)
    healthy = play_one(policy, GREEDY)
    policy.set_value_head(broken_head)
    answers = asyncio.run(gather_all(policy, 5))
    assert all(isinstance(answer, ArithmeticError) for answer in answers)
    policy.set_value_head(None)
    assert play_one(policy, GREEDY) == healthy


def test_a_device_out_of_memory_is_retried_with_half_the_rows(make: Make) -> None:
    policy = make()
    healthy = [play_one(policy, GREEDY, seed=i) for i in range(4)]
    widths: list[int] = []

    def small_device(hidden: torch.Tensor) -> torch.Tensor:
        widths.append(len(hidden))
        if len(hidden) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return hidden.sum(-1)

    policy.set_value_head(small_device)
    answers = asyncio.run(gather_all(policy, 4))
    assert [[r.token_ids for r in a] for a in answers] == [[r.token_ids for r in a] for a in healthy]  # type: ignore[attr-defined]
    assert max(widths) > 2 and sum(width > 2 for width in widths) == 1


def test_a_device_out_of_memory_for_good_is_a_failure_of_memory(make: Make) -> None:
    policy = make()

    def tiny_device(hidden: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    policy.set_value_head(tiny_device)
    with pytest.raises(Failure, match="out of memory") as failure:
        play_one(policy, GREEDY)
    assert failure.value.cause == "memory"


def test_a_model_that_computes_nan_is_a_failure_of_the_policy(make: Make, load: Load) -> None:
    checkpoint = load("qwen2")
    policy = make(checkpoint)
    weight = embedding(checkpoint)
    before = weight.detach().clone()
    with torch.no_grad():
        weight.fill_(torch.nan)
    with pytest.raises(Failure, match="nan"):
        play_one(policy, GREEDY)
    with torch.no_grad():
        weight.copy_(before)


def test_closing_fails_the_waiting_stops_the_thread_and_may_be_repeated(make: Make) -> None:
    policy = make()

    async def close_early() -> None:
        task = asyncio.create_task(policy.start().reply(HELLO, Sampling(max_tokens=3900), seed=0))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(policy.close)
        with pytest.raises(Failure, match="closed"):
            await task

    asyncio.run(close_early())
    policy.close()
    with pytest.raises(Failure, match="closed"):
        asyncio.run(policy.start().reply(HELLO, GREEDY, seed=0))


def test_closing_a_session_fails_its_reply_and_it_cannot_be_used_again(make: Make) -> None:
    policy = make()

    async def close_early() -> None:
        session, other = policy.start(), policy.start()
        task = asyncio.create_task(session.reply(HELLO, Sampling(max_tokens=3900), seed=0))
        bystander = asyncio.create_task(other.reply(HELLO, Sampling(max_tokens=300), seed=0))
        await asyncio.to_thread(wait_for_a_token, policy)
        await session.close()
        for attempt in (task, session.reply(HELLO, GREEDY, seed=0)):
            with pytest.raises(Failure, match="session"):
                await attempt
        assert len((await bystander).token_ids) == 300

    asyncio.run(close_early())


def test_two_replies_of_one_session_at_a_time_are_given_one_after_the_other(make: Make) -> None:
    policy = make()

    async def ask(count: int) -> list[Reply]:
        session = policy.start()
        return await asyncio.gather(*(session.reply(HELLO, GREEDY, seed=0) for _ in range(count)))

    alone, *_ = asyncio.run(ask(1))
    assert [reply.token_ids for reply in asyncio.run(ask(2))] == [alone.token_ids] * 2


def test_caches_can_be_freed_between_replies(make: Make) -> None:
    policy = make()

    async def turns() -> tuple[list[int], Reply]:
        session = policy.start()
        first = await session.reply(HELLO, GREEDY, seed=0)
        held = [policy.arena_bytes]
        await asyncio.to_thread(policy.free_caches)
        held.append(policy.arena_bytes)
        told = [*HELLO, Message("assistant", first.text), Message("user", "Again")]
        return held, await session.reply(told, GREEDY, seed=1)

    held, second = asyncio.run(turns())
    assert held[0] > 0 == held[1]
    assert second.usage["prefilled_tokens"] == second.usage["prompt_tokens"]
    assert second.policy_version == policy.version == 0


def test_a_forgotten_policy_frees_its_arena_without_the_garbage_collector(load: Load) -> None:
    gc.collect()
    gc.disable()
    try:
        threads = threading.active_count()
        policy = HFPolicy(load("qwen3"))
        play_one(policy, GREEDY)
        backend = policy._engine.backend
        assert isinstance(backend, SlotBackend)
        arena = weakref.ref(backend._cache.arena[0].keys)
        del backend, policy
        assert arena() is None
        assert threading.active_count() == threads
    finally:
        gc.enable()


def test_closed_sessions_give_their_slots_back(make: Make) -> None:
    policy = make()

    async def many() -> None:
        for _ in range(40):
            session: HFSession = policy.start()
            await session.reply(HELLO, Sampling(max_tokens=2), seed=0)
            await session.close()

    asyncio.run(many())
    assert policy.arena_bytes <= 8 * 64 * 512
