"""Experience: episodes of one update, and the tensors and numbers that they become."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from agentbench.core.errors import Failure
from agentbench.core.policy import Policy
from agentbench.core.records import Planned, digest
from agentbench.core.registry import Resolved
from agentbench.core.rewards import RewardSpec, weigh
from agentbench.core.seeding import Part, derive
from agentbench.core.types import Trajectory
from agentbench.rollout.episode import Setting
from agentbench.rollout.pool import play
from agentbench.train.batch import Batch, make_batch


class Experience(NamedTuple):
    """What one update learns from."""

    batch: Batch
    metrics: dict[str, float]


def plan_groups(resolved: Resolved, groups: int, group_size: int, *name: Part) -> list[Planned]:
    """Draw tasks, and plan several attempts at each.

    Args:
        resolved: The environment, in its train split.
        groups: Tasks.
        group_size: Attempts at each.
        *name: What the draw is for: root seed, stage, update.
    """
    plan = []
    for group in range(groups):
        seed = derive("train task", *name, group)
        task = digest(resolved.digest, seed)[:16]
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
    """
    began, began_wall = time.process_time(), time.monotonic()
    attempts = play_all(plan, setting, policy, retries=retries)
    played = [trajectory for trajectory in attempts if trajectory.scored and trajectory.turns]
    if not played:
        raise Failure("environment", f"none of {len(plan)} episodes could be played: {_first_failure(attempts)}")
    rewards = [weigh(trajectory, spec, gamma) for trajectory in played]
    groups: list[Hashable] = [trajectory.task for trajectory in played]
    metrics = {
        "episode/reward": _mean([sum(paid) for paid in rewards]),
        "episode/failures": 1 - len(played) / len(attempts),
        **_episode_metrics(played),
        **_entropies(played),
        "time/rollout_cpu_seconds": time.process_time() - began,
        "time/rollout_seconds": time.monotonic() - began_wall,
    }
    return Experience(make_batch(played, rewards, groups), metrics)


def _episode_metrics(played: Sequence[Trajectory]) -> dict[str, float]:
    turns = [turn for trajectory in played for turn in trajectory.turns]
    return {
        "episode/native_reward": _mean([trajectory.total_reward for trajectory in played]),
        "episode/success": _mean([float(bool(trajectory.success)) for trajectory in played]),
        "episode/turns": len(turns) / len(played),
        "episode/tokens": sum(len(turn.reply.token_ids) for turn in turns) / len(played),
        "episode/invalid": _mean([float(not turn.valid) for turn in turns]),
        "time/env_seconds": sum(turn.env_seconds for turn in turns),
    }


def _entropies(played: Sequence[Trajectory]) -> dict[str, float]:
    """Mean entropy of the sampled tokens, over all and by the index of their turn."""
    by_turn: dict[int, list[float]] = defaultdict(list)
    for trajectory in played:
        for k, turn in enumerate(trajectory.turns):
            by_turn[k] += turn.reply.entropies
    traces = {f"entropy/turn_{k}": _mean(entropies) for k, entropies in sorted(by_turn.items()) if entropies}
    every = [entropy for entropies in by_turn.values() for entropy in entropies]
    return {"policy/entropy": _mean(every), **traces} if every else {}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _first_failure(attempts: Sequence[Trajectory]) -> str:
    failed = next((trajectory.failure for trajectory in attempts if trajectory.failure), None)
    return failed["message"] if failed else "every context was full before its first turn"
