"""Whether a record is true: play the recorded replies again, by the same loop, and compare everything that comes back.

The hash chain of a record finds corruption; only playing again finds a reward that was never paid. Around the episodes,
a run must be of one piece: the plan is the one that its configuration draws (nobody chose the easy tasks), every
planned episode was attempted, and the summary is that of the rows. What replay cannot show is who chose the actions.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from agentbench.core.errors import ContextFull, Failure, IntegrityError, OutOfTime, UsageError
from agentbench.core.policy import EpisodeContext
from agentbench.core.records import Planned, Row, RunDirectory, canonical
from agentbench.core.registry import Resolved
from agentbench.core.rows import row_of
from agentbench.core.types import End, Message, Reply, Sampling, Trajectory
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import ENDED, plan_tasks, seal
from agentbench.evaluate.lock import protocol
from agentbench.metrics.collect import summarise
from agentbench.policies.scripted import SCRIPTED
from agentbench.rollout.episode import Setting, run_episode
from agentbench.rollout.launch import Seats
from agentbench.rollout.place import Kind, Place

Draw = Callable[[Resolved, int, int, int], list[Planned]]
"""Plans episodes from environment, episodes, trials and seed: `plan_tasks`."""


class Replayed(NamedTuple):
    """One episode, played again."""

    key: str
    difference: str | None
    """None if everything was equal; else where it was not, and how."""


def place_of(run: RunDirectory, kind: Kind, *, allow_unsandboxed: bool = False) -> Place:
    """Return a place to play the episodes of a run again, wherever they were played first; see `Place`."""
    return Place(_setting_of_run(run).resolved, kind, allow_unsandboxed=allow_unsandboxed)


def replay(run: RunDirectory, *, limit: int | None = None, place: Place | None = None) -> Iterator[Replayed]:
    """Play the scored episodes of a run again and yield what was found.

    Args:
        run: The run.
        limit: Episodes to replay; None replays all.
        place: Where the environment's code runs; None: in this process.

    Raises:
        UsageError: It is a training run, or its environment is not deterministic, or is here in another version.
    """
    plan = {planned.key: planned for planned in run.plan()}
    with Repetition(replace(_setting_of_run(run), place=place)) as repetition:
        for row in list(run.scored().values())[:limit]:
            yield Replayed(row["key"], _difference(repetition, run, row, plan.get(row["key"])))


def run_difference(run: RunDirectory, *, place: Place | None = None) -> str | None:
    """Say where a run is not of one piece, apart from what its episodes say; None if it is.

    Args:
        run: The run.
        place: Where the environment's code runs that draws the plan again; None: in this process.
    """
    state, plan, rows = run.state, run.plan(), run.rows()
    ended = state["status"] in ENDED
    if "seal" in state and not ended:
        return f"run.json says {state['status']}, and was sealed as that of a run which ended"
    return (
        # While a run goes on, rows come after the summary.
        (summary_difference(state["summary"], plan, rows) if state["status"] != "started" else None)
        or circumstances_difference(state["config"], run.lock, plan, partial(plan_tasks, place=place))
        or _rows_difference(plan, rows, ended=ended)
        or (_seal_difference(run, state) if ended else None)
    )


def summary_difference(summary: Mapping[str, Any], plan: Sequence[Planned], rows: Sequence[Row]) -> str | None:
    """Compare a summary with what plan and rows say; None if nothing differs."""
    true = summarise(plan, rows)
    false = [name for name in true if name in summary and canonical(summary[name]) != canonical(true[name])]
    return f"run.json says another {', '.join(false)} than plan.jsonl and episodes.jsonl" if false else None


def circumstances_difference(
    config: Mapping[str, Any], lock: Mapping[str, Any], plan: Sequence[Planned], draw: Draw = plan_tasks
) -> str | None:
    """Compare what was planned, and what the lock says was played, with what the configuration asks for.

    Args:
        config: The keys of the configuration that may change a result.
        lock: The contents of the lock.
        plan: Every planned episode.
        draw: Plans episodes; whoever checks many runs of one panel may remember what it drew.
    """
    asked, setting = EvalConfig.parse(config), setting_of(config, lock)
    if asked.trials * len({planned.task for planned in plan}) != len(plan) or draw(
        setting.resolved, asked.episodes, asked.trials, asked.seed
    ) != list(plan):
        return "the planned episodes are not those that the configuration draws"
    if asked.model in SCRIPTED and lock["policy"] != asked.model:
        return f"the lock says that {lock['policy']!r} played, the configuration {asked.model!r}"
    played = protocol(setting, plan)
    false = [name for name in played if canonical(lock[name]) != canonical(played[name])]
    return f"the lock says another {', '.join(false)} than the configuration and this environment" if false else None


def setting_of(config: Mapping[str, Any], lock: Mapping[str, Any]) -> Setting:
    """Return the setting in which a run was played.

    Raises:
        UsageError: Its environment is not here, or in another version.
    """
    asked = EvalConfig.parse(config)
    resolved = asked.resolve_env()
    if resolved.id != lock["env"]:
        raise UsageError(f"what was played is {lock['env']}, what is here is {resolved.id}")
    return asked.setting(resolved, scripted=asked.model in SCRIPTED or asked.model.startswith("replay:"))


def _setting_of_run(run: RunDirectory) -> Setting:
    state = run.state
    if state.get("kind") == "train":
        raise UsageError(f"{run.path} is a training run; replay an evaluation of one of its checkpoints")
    try:
        return setting_of(state["config"], run.lock)
    except UsageError:
        changed = _seal_difference(run, state) if state["status"] in ENDED else None
        if changed:
            raise IntegrityError(f"{run.path}: {changed}") from None
        raise


class Repetition:
    """Plays recorded replies again: a context manager that holds an event loop and one environment.

    Args:
        setting: The environment, and the limits and the format under which the replies were given.

    Raises:
        UsageError: The environment is not deterministic.
    """

    def __init__(self, setting: Setting) -> None:
        resolved = setting.resolved
        if not resolved.entry.deterministic:
            raise UsageError(f"{resolved.id} is not deterministic: its actions cannot be replayed to the letter")
        # How long replies took back then says nothing about now: running out of time is taken from the record.
        self.setting = replace(setting, limits=replace(setting.limits, max_seconds=None))
        self._timed = setting.limits.max_seconds is not None
        self._runner = asyncio.Runner()
        self._seats = Seats(resolved, setting.place)
        self._seat = self._seats.new()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._runner.run(self._seats.close())
        self._runner.close()

    def play(self, planned: Planned, replies: Sequence[Reply], end: End) -> Trajectory:
        """Play one episode again.

        Args:
            planned: Its task and trial.
            replies: What the policy answered, turn by turn.
            end: How the episode ended, for the ends that no environment and no count shows: a full context, and time
                running out where it was limited.
        """
        return self._runner.run(run_episode(planned, self.setting, _Recited(replies, end, self._timed), self._seat))


class _Recited:
    """A policy that repeats recorded replies, and stops as their policy did."""

    name, version = "recited", 0

    def __init__(self, replies: Sequence[Reply], end: End, timed: bool) -> None:
        self._left = iter(replies)
        self._stop: type[Exception] | None = {"max_tokens": ContextFull, "timeout": OutOfTime if timed else None}.get(
            end
        )

    def start(self, episode: EpisodeContext) -> "_Recited":
        return self

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        for reply in self._left:
            return reply
        if self._stop is not None:
            raise self._stop
        raise Failure("policy", "the episode goes on here, the record does not")

    async def close(self) -> None:
        """Nothing is held."""


def _difference(repetition: Repetition, run: RunDirectory, row: Row, planned: Planned | None) -> str | None:
    try:
        recorded = run.trajectory(row)
    except IntegrityError as error:
        return str(error)
    false = [name for name, value in row_of(recorded).items() if name in row and row[name] != value]
    if false:
        return f"the row says another {', '.join(false)} than its trajectory"
    if planned != Planned(row["key"], recorded.task, recorded.seed, recorded.trial):
        return "the trajectory is of another task or trial than was planned under this key"
    return compare(repetition, recorded, planned)


def compare(repetition: Repetition, recorded: Trajectory, planned: Planned) -> str | None:
    """Play a trajectory's replies again; return the first difference, or None."""
    again = repetition.play(planned, [turn.reply for turn in recorded.turns], recorded.end)
    for k, (then, now) in enumerate(zip(recorded.turns, again.turns, strict=False)):
        for name in ("observation", "action", "reward", "terms", "valid", "potential", "hash"):
            if getattr(then, name) != getattr(now, name):
                return f"turn {k}: {_of(name)} is {getattr(now, name)!r}, recorded is {getattr(then, name)!r}"
    if again.failure:
        return f"turn {len(again.turns)}: {again.failure['message']}"
    for name, then, now in [
        ("number of turns", len(recorded.turns), len(again.turns)),
        *((name, getattr(recorded, name), getattr(again, name)) for name in _OF_EPISODES),
    ]:
        if then != now:
            return f"{_of(name)} is {now!r}, recorded is {then!r}"
    return None


_OF_EPISODES = ("env", "split", "end", "success", "final_observation", "final_potential")
"""What a record says of the episode as a whole, and playing again does too."""


def _of(name: str) -> str:
    return f"the {name.replace('_', ' ')}"


def _rows_difference(plan: Sequence[Planned], rows: Sequence[Row], *, ended: bool) -> str | None:
    """Rows stand in the order of their trajectories, each is of a planned episode, and in the end none is missing."""
    place = ("", 0)
    for row in rows:
        shard, offset = row["shard"], row["offset"]
        if (offset != place[1]) if shard == place[0] else (shard < place[0] or offset != 0):
            return f"episodes.jsonl is out of order, or a row is missing, before {row['key']}"
        place = (shard, offset + row["length"])
    attempted, keys = {row["key"] for row in rows}, {planned.key for planned in plan}
    if attempted - keys:
        return f"episode {min(attempted - keys)} was never planned"
    if ended and keys - attempted:
        return f"{len(keys - attempted)} planned episodes were never attempted, the first one {min(keys - attempted)}"
    return None


def _seal_difference(run: RunDirectory, state: Row) -> str | None:
    """Whatever was changed after the end, also where nothing else shows it: tokens, times, the name of the policy."""
    sealed, found = state["files"], run.fingerprints()
    changed = sorted(name for name in sealed.keys() | found.keys() if sealed.get(name) != found.get(name))
    if changed:
        return f"{', '.join(changed)} changed after the run ended"
    return None if seal(state) == state["seal"] else "run.json changed after the run ended"
