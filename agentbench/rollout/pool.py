"""Many episodes at once, streamed as they end. Nothing runs in lock-step.

Each of `jobs` workers owns a seat and plays one episode after another; a fast episode never waits for a slow one. An
infrastructure failure is yielded like any other end, its seat is replaced, and the episode is played again while it has
retries left.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import NamedTuple

from agentbench.core.policy import Policy
from agentbench.core.records import Planned
from agentbench.core.types import Trajectory
from agentbench.rollout.episode import Setting, run_episode
from agentbench.rollout.launch import Seats


class Played(NamedTuple):
    """An attempt that ended."""

    planned: Planned
    trajectory: Trajectory


class _Owed(NamedTuple):
    planned: Planned
    retry: int


async def play(
    plan: Iterable[Planned], setting: Setting, policy: Policy, *, jobs: int = 1, retries: int = 0
) -> AsyncGenerator[Played, None]:
    """Play every planned episode and yield each attempt as it ends.

    Args:
        plan: What to play; the order is kept for starting, not for ending.
        setting: What the episodes have in common.
        policy: Who answers; asked concurrently.
        jobs: Episodes in flight.
        retries: How often an episode is tried again after infrastructure failed.

    Raises:
        AgentBenchError: Something that no retry would mend; episodes in flight are cancelled and their seats closed.
    """
    owed = deque(_Owed(planned, 0) for planned in plan)
    ended: asyncio.Queue[Played | None] = asyncio.Queue()
    seats = Seats(setting.resolved, setting.place)
    workers = [
        asyncio.create_task(_work(owed, ended, setting, policy, seats, retries)) for _ in range(min(jobs, len(owed)))
    ]
    for worker in workers:
        worker.add_done_callback(lambda _: ended.put_nowait(None))
    try:
        while not all(worker.done() for worker in workers) or not ended.empty():
            played = await ended.get()
            if played is not None:
                yield played
            elif broken := next((w for w in workers if w.done() and w.exception()), None):
                broken.result()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await seats.close()  # Also those whose worker was cancelled while it closed them.


async def _work(
    owed: deque[_Owed],
    ended: asyncio.Queue[Played | None],
    setting: Setting,
    policy: Policy,
    seats: Seats,
    retries: int,
) -> None:
    """Play owed episodes in one seat until none is left."""
    seat = seats.new()
    try:
        while owed:
            planned, retry = owed.popleft()
            trajectory = await run_episode(planned, setting, policy, seat, retry=retry)
            if trajectory.end == "failure":
                await seat.close()
                seat = seats.new()
                if retry < retries:
                    owed.append(_Owed(planned, retry + 1))
            ended.put_nowait(Played(planned, trajectory))
    finally:
        await seat.close()
