"""Experience: episodes of one update, and the tensors and numbers that they become."""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from agentbench.core.errors import Failure, UsageError
from agentbench.core.policy import Policy
from agentbench.core.records import Planned, digest
from agentbench.core.registry import Resolved
from agentbench.core.rewards import POTENTIAL, RewardSpec, weigh
from agentbench.core.rows import totals
from agentbench.core.seeding import Part, derive
from agentbench.core.types import Trajectory
from agentbench.metrics.collect import reached
from agentbench.metrics.stats import clustered_error
from agentbench.rollout.episode import Setting
from agentbench.rollout.pool import Played, play
from agentbench.train.batch import Batch, Credit, make_batch


class Experience(NamedTuple):
    """What one update learns from."""

    batch: Batch
    metrics: dict[str, float]
    played: list[Played]
    """The episodes of the batch, in its order."""


def plan_groups(resolved: Resolved, groups: int, group_size: int, *name: Part) -> list[Planned]:
    """Draw tasks, and plan several attempts at each.

    Args:
        resolved: The environment, in its train split.
        groups: Tasks.
        group_size: Attempts at each.
        *name: What the draw is for: root seed, stage, update.
    """
    plan = []
    panel = resolved.digest
    for group in range(groups):
        seed = derive("train task", *name, group)
        task = digest(panel, seed)[:16]
        plan += [Planned(digest(task, *name, trial)[:16], task, seed, trial) for trial in range(group_size)]
    return plan


def play_all(plan: Sequence[Planned], setting: Setting, policy: Policy, *, retries: int) -> list[Trajectory]:
    """Play a plan, all episodes at once, and return them in the order of the plan, failures included."""

    async def main() -> dict[str, Trajectory]:
        last: dict[str, Trajectory] = {}
        async for planned, trajectory in play(plan, setting, policy, jobs=len(plan), retries=retries):
            last[planned.key] = trajectory
        return last

    last = asyncio.run(main())
    return [last[planned.key] for planned in plan]


def collect(
    plan: Sequence[Planned], setting: Setting, policy: Policy, spec: RewardSpec, gamma: float, *, retries: int
) -> Experience:
    """Play the episodes of an update and make a batch of them.

    Args:
        plan: Tasks and attempts.
        setting: Limits, sampling, context.
        policy: Who plays: the learner, or a demonstrator.
        spec: What the trainer pays.
        gamma: The discount of potential-based shaping.
        retries: Attempts after an infrastructure failure.

    Raises:
        Failure: No episode at all could be played.
        UsageError: The potential is to be paid, and the environment reports none.
    """
    began, began_wall = time.process_time(), time.monotonic()
    attempts = play_all(plan, setting, policy, retries=retries)
    kept = [Played(planned, t) for planned, t in zip(plan, attempts, strict=True) if t.scored and t.turns]
    played = [trajectory for _, trajectory in kept]
    if not played:
        raise Failure("environment", f"none of {len(plan)} episodes could be played: {_first_failure(attempts)}")
    if any(term.name == POTENTIAL for term in spec.terms):
        _require_potential(played)
    rewards = [weigh(trajectory, spec, gamma) for trajectory in played]
    groups: list[Hashable] = [trajectory.task for trajectory in played]
    metrics = {
        "episode/reward": _mean([sum(paid) for paid in rewards]),
        **_error("episode/reward_error", [sum(paid) for paid in rewards], groups),
        **_error("episode/success_error", [float(bool(t.success)) for t in played], groups),
        "episode/failures": 1 - len(played) / len(attempts),
        **_episode_metrics(played),
        **_entropies(played),
        "time/rollout_cpu_seconds": time.process_time() - began,
        "time/rollout_seconds": time.monotonic() - began_wall,
    }
    return Experience(make_batch(played, rewards, groups), metrics, kept)


def credited(experience: Experience, credit: Credit, limit: int) -> list[Played]:
    """Choose a few episodes to keep, half of them failed ones, and write on them what was made of their rewards.

    Args:
        experience: What an update learned from.
        credit: The advantages that it computed.
        limit: Episodes.
    """
    failed = [e for e, played in enumerate(experience.played) if not played.trajectory.success]
    solved = [e for e, played in enumerate(experience.played) if played.trajectory.success]
    several = max(limit // 2, limit - len(solved))
    chosen = [*failed[:several], *solved][:limit]
    batch = experience.batch
    advantages_ej, turn_ej = batch.gather(credit.advantages_bt), batch.tokens.turn_ej
    for e in chosen:
        for k, turn in enumerate(experience.played[e].trajectory.turns):
            turn.advantages = tuple(advantages_ej[e][turn_ej[e] == k].tolist())
    return [experience.played[e] for e in chosen]


def _error(name: str, values: Sequence[float], tasks: Sequence[Hashable]) -> dict[str, float]:
    """Return the standard error of a mean over episodes, the task being the unit; of a single task it is not known."""
    error = clustered_error(values, tasks)
    return {name: error} if math.isfinite(error) else {}


def _episode_metrics(played: Sequence[Trajectory]) -> dict[str, float]:
    turns = [turn for trajectory in played for turn in trajectory.turns]
    far = reached([totals(trajectory.turns) for trajectory in played], among=len(played))
    return {
        "episode/native_reward": _mean([trajectory.total_reward for trajectory in played]),
        "episode/success": _mean([float(bool(trajectory.success)) for trajectory in played]),
        "episode/turns": len(turns) / len(played),
        "episode/tokens": sum(len(turn.reply.token_ids) for turn in turns) / len(played),
        "episode/invalid": _mean([float(not turn.valid) for turn in turns]),
        **{f"episode/{rate}": share for rate, share in far.items()},
        "time/env_seconds": sum(turn.env_seconds for turn in turns),
    }


def _entropies(played: Sequence[Trajectory]) -> dict[str, float]:
    """Mean entropy of the sampled tokens: over all, by the index of their turn, and by their place in the episode.

    Places are told apart by powers of two: the first token, the second, the third and fourth, up to the eighth, ...
    """
    by_turn: dict[int, list[float]] = defaultdict(list)
    by_place: dict[int, list[float]] = defaultdict(list)
    for trajectory in played:
        for k, turn in enumerate(trajectory.turns):
            by_turn[k] += turn.reply.entropies
        for place, entropy in enumerate(entropy for turn in trajectory.turns for entropy in turn.reply.entropies):
            by_place[(1 << place.bit_length()) >> 1].append(entropy)
    traces = {f"entropy/turn_{k}": _mean(entropies) for k, entropies in sorted(by_turn.items()) if entropies}
    places = {f"entropy/token_{first}": _mean(entropies) for first, entropies in sorted(by_place.items())}
    every = [entropy for entropies in by_turn.values() for entropy in entropies]
    return {"policy/entropy": _mean(every), **traces, **places} if every else {}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _require_potential(played: Sequence[Trajectory]) -> None:
    # On the way to success a potential changes; where nobody succeeds, one that measures progress may stay 0.
    solved = [trajectory for trajectory in played if trajectory.success]
    if solved and not any(turn.potential for trajectory in solved for turn in trajectory.turns):
        raise UsageError(
            f"{solved[0].env} reports no potential, and shaping by it pays nothing: take reward = 'native', or leave"
            " potential out of reward.terms"
        )


def _first_failure(attempts: Sequence[Trajectory]) -> str:
    failed = next((trajectory.failure for trajectory in attempts if trajectory.failure), None)
    return failed["message"] if failed else "every context was full before its first turn"
