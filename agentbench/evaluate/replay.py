"""Whether recorded rewards are true: play the recorded actions again and compare everything that comes back.

The hash chain of a record finds corruption; only playing again finds a reward that was never paid. What replay cannot
show is who chose the actions.
"""

from collections.abc import Iterator
from typing import NamedTuple

from agentbench.core.env import Env
from agentbench.core.errors import IntegrityError, UsageError
from agentbench.core.records import Planned, Row, RunDirectory, canonical, row_of, turn_hash
from agentbench.core.registry import Resolved, resolve
from agentbench.core.types import Trajectory
from agentbench.metrics.collect import summarise
from agentbench.rollout.episode import understood


class Replayed(NamedTuple):
    """One episode, played again."""

    key: str
    difference: str | None
    """None if everything was equal; else where it was not, and how."""


def replay(run: RunDirectory, *, limit: int | None = None) -> Iterator[Replayed]:
    """Play the scored episodes of a run again and yield what was found.

    Args:
        run: The run.
        limit: Episodes to replay; None replays all.

    Raises:
        UsageError: The environment is not deterministic, or is here in another version.
    """
    resolved = environment_of(run)
    if not resolved.entry.deterministic:
        raise UsageError(f"{resolved.id} is not deterministic: its actions cannot be replayed to the letter")
    plan = {planned.key: planned for planned in run.plan()}
    env = resolved.make()
    try:
        for row in list(run.scored().values())[:limit]:
            yield Replayed(row["key"], _difference(env, run, row, plan.get(row["key"])))
    finally:
        env.close()


def summary_difference(run: RunDirectory) -> str | None:
    """Compare what run.json says of a run that ended with what its plan and rows say; None if nothing differs."""
    state = run.state
    if state["status"] not in ("complete", "invalid"):
        return None  # It may go on; what it has so far is no result.
    true = summarise(run.plan(), run.rows())
    false = [
        name for name in true if name in state["summary"] and canonical(state["summary"][name]) != canonical(true[name])
    ]
    return f"run.json says another {', '.join(false)} than plan.jsonl and episodes.jsonl" if false else None


def environment_of(run: RunDirectory) -> Resolved:
    """Resolve the environment of a run as it was, variant, version, split and arguments included."""
    lock, config = run.lock, run.state["config"]
    name = config["env"]
    if ".py" not in name:
        name = f"{lock['env']}:{lock['split']}"
    return resolve(name, split=lock["split"], **lock["env_args"])


def _difference(env: Env, run: RunDirectory, row: Row, planned: Planned | None) -> str | None:
    try:
        recorded = run.trajectory(row)
    except IntegrityError as error:
        return str(error)
    false = [name for name, value in row_of(recorded).items() if row.get(name) != value]
    if false:
        return f"the row says another {', '.join(false)} than its trajectory"
    if planned != Planned(row["key"], recorded.task, recorded.seed, recorded.trial):
        return "the trajectory is of another task or trial than was planned under this key"
    return compare(env, recorded)


def compare(env: Env, recorded: Trajectory) -> str | None:
    """Play a trajectory's actions again; return the first difference, or None.

    Args:
        env: The environment, with the arguments that it had; it is reset first.
        recorded: What is said to have happened.
    """
    observation, _ = env.reset(seed=recorded.seed)
    success, previous = None, ""
    for k, turn in enumerate(recorded.turns):
        if observation != turn.observation:
            return f"turn {k}: the observation differs"
        step = understood(env.step(turn.action))
        terms = step.info["terms"]
        if step.reward != turn.reward:
            return f"turn {k}: the reward is {step.reward!r}, recorded is {turn.reward!r}"
        if terms != turn.terms:
            return f"turn {k}: the reward terms are {terms}, recorded are {turn.terms}"
        end = "terminated" if step.terminated else "truncated" if step.truncated else None
        previous = turn_hash(previous, observation, turn.action, step.reward, terms, end)
        if previous != turn.hash:
            return f"turn {k}: the hash differs (the recorded end of the episode is false)"
        observation, success = step.observation, step.info.get("success")
        if end is not None and k < len(recorded.turns) - 1:
            return f"turn {k}: the episode ended here, the record goes on"
    return _final_difference(recorded, observation, success)


def _final_difference(recorded: Trajectory, observation: str, success: bool | None) -> str | None:
    if observation != recorded.final_observation:
        return "the final observation differs"
    if recorded.turns and bool(success) != bool(recorded.success):
        return f"success is {success}, recorded is {recorded.success}"
    return None
