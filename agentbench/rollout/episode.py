"""The one loop. Evaluation, training, demonstrations and replays all play episodes through `run_episode`.

An episode ends because the environment says so, because a limit is reached, or because infrastructure broke. The third
is a `Failure`, no outcome of the agent: `boundary` draws that line, and this file is the only one that uses it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from agentbench.core.env import Env, Step
from agentbench.core.errors import ContextFull, Failure, OutOfTime, boundary
from agentbench.core.policy import EpisodeContext, Policy, Session, is_scripted
from agentbench.core.records import Planned, turn_hash
from agentbench.core.registry import Resolved
from agentbench.core.seeding import derive
from agentbench.core.types import End, Message, Reply, Sampling, Trajectory, Turn
from agentbench.rollout.context import ContextSpec, Conversation
from agentbench.rollout.launch import Seat
from agentbench.rollout.limits import Limits
from agentbench.rollout.place import Place

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """What all episodes of a run have in common."""

    resolved: Resolved
    limits: Limits
    sampling: Sampling = field(default_factory=Sampling)
    context: ContextSpec = field(default_factory=ContextSpec)
    seed: int = 0
    """Root of the replies' seeds."""
    bootstrap: bool = False
    """Ask the critic of a policy that has one what would have followed a cut-off."""
    place: Place | None = None
    """Where the environment's code runs; None: in this process."""


async def run_episode(planned: Planned, setting: Setting, policy: Policy, seat: Seat, *, retry: int = 0) -> Trajectory:
    """Play one episode from reset to its end.

    Args:
        planned: Which task, which trial.
        setting: Limits, sampling and context.
        policy: Who answers.
        seat: The environment; it is reset first.
        retry: How often infrastructure failed on this episode before.

    Returns:
        The record. An infrastructure failure is recorded in it, not raised.

    Raises:
        AgentBenchError: A user's mistake that the policy or the environment found late.
    """
    resolved = setting.resolved
    trajectory = Trajectory(resolved.id, resolved.split, planned.task, planned.seed, planned.trial, retry)
    trajectory.sandbox = (setting.place.record or None) if setting.place else None
    clock = _Clock(setting.limits.max_seconds)
    try:
        with boundary("environment"):
            env = await seat.start()
            observation, info = await clock.wait_for_env(seat, env.reset, seed=planned.seed)
            _look(trajectory, observation, info)
            trajectory.sandbox = info.get("sandbox", trajectory.sandbox)
        conversation = Conversation(resolved.instructions, setting.context)
        async with _session(policy, planned, setting, env, seat) as session:
            table = _Table(env, seat, session, conversation, clock)
            trajectory.end = await _take_turns(trajectory, planned, setting, table, info)
            if setting.bootstrap and trajectory.end in ("truncated", "max_turns"):
                trajectory.last_value = await _value_of_what_follows(trajectory, table, setting)
    except Failure as failure:
        trajectory.end, trajectory.success = "failure", None
        trajectory.failure = {"cause": failure.cause, "message": str(failure)}
    return trajectory


async def _take_turns(
    trajectory: Trajectory,
    planned: Planned,
    setting: Setting,
    table: "_Table",
    info: dict[str, Any],
) -> End:
    """Take turns until the environment or a limit ends the episode; say which."""
    env, seat, session, conversation, clock = table
    while (reached := _limit(trajectory, setting.limits)) is None:
        images = (info["image"],) if "image" in info else ()
        messages = conversation.messages(trajectory.final_observation, images)
        seed = derive("reply", setting.seed, planned.key, len(trajectory.turns))
        began = time.perf_counter()
        try:
            with boundary("policy"):
                reply = await clock.wait_for_policy(session, messages, _allowance(trajectory, setting), seed)
        except ContextFull:
            return "max_tokens"
        except OutOfTime:
            return "timeout"
        replied = time.perf_counter()
        action, well_formed = conversation.extract(reply.text)
        with boundary("environment"):
            step = understood(await clock.wait_for_env(seat, env.step, action))
        seconds = (time.perf_counter() - replied, replied - began)
        end = _record(trajectory, reply, action, step, seconds, info.get("potential", 0.0), well_formed=well_formed)
        info = step.info
        if end is not None:
            return end
    return reached


async def _value_of_what_follows(trajectory: Trajectory, table: "_Table", setting: Setting) -> float | None:
    """Let the policy look at the last observation; what its critic says before the first token is V of that state."""
    messages = table.conversation.messages(trajectory.final_observation)
    try:
        with boundary("policy"):
            reply = await table.session.reply(messages, replace(setting.sampling, max_tokens=1), seed=0)
    except ContextFull:
        return None
    return reply.values[0] if reply.values else None


class _Table(NamedTuple):
    """What an episode is played with."""

    env: Env
    seat: Seat
    session: Session
    conversation: Conversation
    clock: "_Clock"


@asynccontextmanager
async def _session(policy: Policy, planned: Planned, setting: Setting, env: Env, seat: Seat) -> AsyncIterator[Session]:
    scripted = is_scripted(policy)
    context = EpisodeContext(
        planned.key, setting.resolved, planned.task, env if scripted else None, seat.call if scripted else None
    )
    with boundary("policy"):
        session = policy.start(context)
    try:
        yield session
    finally:
        await session.close()


def understood(step: Step) -> Step:
    """Return the step with plain numbers, as the record needs them; without what every step must say, this raises."""
    terms = {name: float(value) for name, value in step.info.get("terms", {}).items()}
    info = {**step.info, "valid": bool(step.info["valid"]), "terms": terms}
    return step._replace(reward=float(step.reward), info=info)


def _record(
    trajectory: Trajectory,
    reply: Reply,
    action: str,
    step: Step,
    seconds: tuple[float, float],
    potential: float,
    *,
    well_formed: bool,
) -> End | None:
    """Append the turn; say whether the environment ended the episode."""
    end: End | None = "terminated" if step.terminated else "truncated" if step.truncated else None
    terms = step.info["terms"]
    observation = trajectory.final_observation
    turn = Turn(
        observation=observation,
        reply=reply,
        action=action,
        reward=step.reward,
        terms=terms,
        potential=potential,
        valid=step.info["valid"] and well_formed,
        info={key: value for key, value in step.info.items() if key not in _OWN_FIELDS},
        env_seconds=seconds[0],
        policy_seconds=seconds[1],
        hash=turn_hash(trajectory.head_hash, observation, action, step.reward, terms, end),
    )
    trajectory.turns.append(turn)
    _look(trajectory, step.observation, step.info, over=step.terminated)
    return end


_OWN_FIELDS = ("valid", "terms", "potential")
"""Keys of `info` that a turn keeps in fields of its own."""


def _look(trajectory: Trajectory, observation: str, info: dict[str, Any], *, over: bool = False) -> None:
    trajectory.final_observation = observation
    trajectory.final_potential = info.get("potential", 0.0)
    if "success" in info:
        # None is "not yet" while the episode goes on, and whoever cuts it off there was not shown a success.
        said = info["success"]
        trajectory.success = None if said is None and over else bool(said)


def _limit(trajectory: Trajectory, limits: Limits) -> End | None:
    turns = trajectory.turns
    if len(turns) >= limits.max_turns:
        return "max_turns"
    if limits.max_tokens is not None and _tokens(trajectory) >= limits.max_tokens:
        return "max_tokens"
    if limits.max_invalid is not None and len(turns) >= limits.max_invalid:
        in_a_row = turns[-limits.max_invalid :]
        return None if any(turn.valid for turn in in_a_row) else "max_invalid"
    return None


def _allowance(trajectory: Trajectory, setting: Setting) -> Sampling:
    """The sampling of the next reply, cut to what is left of the episode's tokens."""
    total = setting.limits.max_tokens
    if total is None:
        return setting.sampling
    left = total - _tokens(trajectory)
    return replace(setting.sampling, max_tokens=min(setting.sampling.max_tokens, left))


def _tokens(trajectory: Trajectory) -> int:
    return sum(turn.reply.n_tokens for turn in trajectory.turns)


class _Clock:
    """Waits no longer than the episode may take."""

    def __init__(self, max_seconds: float | None) -> None:
        self._deadline = None if max_seconds is None else asyncio.get_running_loop().time() + max_seconds

    async def wait_for_policy(self, session: Session, messages: list[Message], sampling: Sampling, seed: int) -> Reply:
        """Wait for a reply; running out of time raises OutOfTime, the policy's own time-outs are failures."""
        if self._deadline is None:
            return await session.reply(messages, sampling, seed=seed)
        timeout = asyncio.timeout_at(self._deadline)
        try:
            async with timeout:
                return await session.reply(messages, sampling, seed=seed)
        except TimeoutError as error:
            if timeout.expired():
                raise OutOfTime from error
            raise

    async def wait_for_env(self, seat: Seat, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Wait for the environment; running out of time is an infrastructure failure: its work never takes long."""
        if self._deadline is None:
            return await seat.call(function, *args, **kwargs)
        timeout = asyncio.timeout_at(self._deadline)
        try:
            async with timeout:
                return await seat.call(function, *args, **kwargs)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise Failure("timeout", "the environment did not answer within the episode's time") from error
