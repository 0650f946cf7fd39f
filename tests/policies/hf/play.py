"""Playing a few turns, and what transformers itself makes of the same tokens."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import torch

from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies.checkpoint import Checkpoint
from agentbench.policies.hf import HFPolicy

GREEDY = Sampling(max_tokens=10)
SAMPLED = Sampling(temperature=0.8, max_tokens=10)
OBSERVATIONS = ("You see √ and @.", "A wall.", "Another, longer observation of the same room.", "End?")


async def play(
    policy: HFPolicy, sampling: Sampling, *, seed: int = 0, observations: Sequence[str] = OBSERVATIONS
) -> list[Reply]:
    """Answer each observation in turn."""
    session = policy.start()
    messages, replies = [Message("system", "Play.")], []
    for turn, observation in enumerate(observations):
        messages.append(Message("user", observation))
        replies.append(await session.reply(messages, sampling, seed=1000 * seed + turn))
        messages.append(Message("assistant", replies[-1].text))
    await session.close()
    return replies


def wait_for_a_token(policy: HFPolicy) -> None:
    """Return once the policy is in the middle of a reply."""
    while not policy.counters.sampled_tokens:
        time.sleep(0.001)


def play_one(policy: HFPolicy, sampling: Sampling, *, seed: int = 0) -> list[Reply]:
    return asyncio.run(play(policy, sampling, seed=seed))


def contexts(replies: Sequence[Reply]) -> list[tuple[list[int], Reply]]:
    """Return each reply with the ids that it was sampled from."""
    context: list[int] = []
    found = []
    for reply in replies:
        context = [*([] if reply.fresh_context else context), *reply.prompt_ids]
        found.append((context, reply))
        context = [*context, *reply.token_ids]
    return found


def embedding(checkpoint: Checkpoint) -> torch.Tensor:
    """Return the weights that everything a model says depends on."""
    weight = checkpoint.model.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    return weight


def generated(checkpoint: Checkpoint, context: Sequence[int], max_tokens: int) -> list[int]:
    """Return what `generate` appends, greedily."""
    model: Any = checkpoint.model
    ids = torch.tensor([context], device=model.device)
    full = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=max_tokens)
    new: list[int] = full[0, len(context) :].tolist()
    return new


def scored(
    checkpoint: Checkpoint, context: Sequence[int], reply: Reply, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probabilities and entropies of a reply's tokens, from one fresh forward in float64."""
    ids = torch.tensor([[*context, *reply.token_ids]], device=checkpoint.model.device)
    with torch.no_grad():
        logits = checkpoint.model(ids).logits[0, len(context) - 1 : -1].double().cpu()
    log_probs = torch.log_softmax(logits / temperature, -1)
    chosen = log_probs.gather(-1, torch.tensor(reply.token_ids)[:, None])[:, 0]
    return chosen, -(log_probs.exp() * log_probs).sum(-1)
