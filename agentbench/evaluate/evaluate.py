"""The main job: a policy, an environment, a panel of tasks, and a run directory that says what happened.

    plan  ->  play what is not scored yet  ->  append each attempt  ->  summarise

The same function starts a run and resumes one; a run that was never interrupted and one that was killed and resumed
have the same rows, because names, not order, decide every seed.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentbench.core.env import Env
from agentbench.core.errors import IntegrityError, NothingSelected, RunInvalid, before_any_episode
from agentbench.core.policy import Policy, is_scripted
from agentbench.core.records import (
    Planned,
    Row,
    RunDirectory,
    RunWriter,
    Status,
    digest,
    require_equal,
    write_json,
    write_text,
)
from agentbench.core.registry import Resolved
from agentbench.core.seeding import derive
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.lock import differences, make_lock
from agentbench.metrics.collect import summarise
from agentbench.policies.choose import choose_policy
from agentbench.rollout.episode import Setting
from agentbench.rollout.launch import check_needs
from agentbench.rollout.place import Place
from agentbench.rollout.pool import Played, play

ENDED = ("complete", "invalid")
"""Statuses of a run that will not go on by itself: its numbers are a result."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, told at its start and after every attempt."""

    run_dir: Path
    planned: int
    scored: int
    row: Row | None
    """The attempt that just ended; None at the start."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A run that ended."""

    run_dir: Path
    status: Status
    summary: dict[str, Any]


Listener = Callable[[Progress], None]


def plan_tasks(
    resolved: Resolved, episodes: int, trials: int, seed: int, *, place: Place | None = None
) -> list[Planned]:
    """Choose the tasks of a panel and plan their trials.

    Draw i of root seed s is the environment's seed `derive("task", s, i)`, the same on every machine; a draw whose
    content was drawn before is passed over. A finite list of tasks is walked from its beginning, each task once.

    Args:
        resolved: The environment.
        episodes: Tasks; fewer are planned where the split does not seem to have so many.
        trials: Attempts at each.
        seed: Root seed.
        place: Where the environment's code runs.

    Raises:
        NothingSelected: No episode is selected.
        UsageError: The environment cannot be started with its arguments.
    """
    with before_any_episode(f"{resolved.id} cannot be started with {dict(resolved.kwargs)}"):
        env = place.start() if place else resolved.make()
        try:
            seeds = _distinct(env, episodes, seed) if env.task_count is None else range(min(episodes, env.task_count))
        finally:
            env.close()
    if not seeds:
        raise NothingSelected(f"{resolved.id}:{resolved.split} with --episodes {episodes} selects no episode")
    panel = resolved.digest
    tasks = [(digest(panel, task_seed)[:16], task_seed) for task_seed in seeds]
    return [Planned(digest(task, t)[:16], task, task_seed, t) for t in range(trials) for task, task_seed in tasks]


DRAWS = 10
"""Draws per wanted task before a split counts as exhausted."""


def _distinct(env: Env, episodes: int, seed: int) -> list[int]:
    """Draw seeds until there are enough with different contents."""
    chosen: dict[str, int] = {}
    for index in range(DRAWS * episodes):
        drawn = derive("task", seed, index)
        chosen.setdefault(env.content(drawn) or f"seed {drawn}", drawn)
        if len(chosen) == episodes:
            break
    return list(chosen.values())


def evaluate(config: EvalConfig, *, resume: Path | None = None, listen: Listener | None = None) -> Evaluated:
    """Evaluate a policy; start a run, or go on with one.

    Args:
        config: What to do.
        resume: A run directory to go on with; its configuration must be equal.
        listen: Called at the start and after every attempt.

    Raises:
        AgentBenchError: With the exit code of its class; whatever was scored before stays on disk.
    """
    resolved = config.resolve_env()
    place = Place(resolved, config.sandbox, allow_unsandboxed=config.allow_unsandboxed)
    if place.kind != "docker":  # What the environment needs, its image has.
        check_needs(resolved)
    plan = plan_tasks(resolved, config.episodes, config.trials, config.seed, place=place)
    policy = choose_policy(config.model, config.model_options())
    try:
        setting = config.setting(resolved, scripted=is_scripted(policy), place=place)
        return asyncio.run(_evaluate(config, setting, policy, plan, resume, listen))
    finally:
        getattr(policy, "close", _nothing)()


def _open(config: EvalConfig, path: Path) -> RunDirectory:
    """Open a run to go on with, if it is a run of the same configuration."""
    run = RunDirectory.open(path)
    require_equal(path, "configuration", run.state["config"], config.result_keys())
    return run


async def _evaluate(
    config: EvalConfig,
    setting: Setting,
    policy: Policy,
    plan: Sequence[Planned],
    resume: Path | None,
    listen: Listener | None,
) -> Evaluated:
    await getattr(policy, "check", _nothing_async)()
    run = _open(config, resume) if resume else RunDirectory.create(config.out, setting.resolved.id, policy.name)
    lock = make_lock(setting, policy, plan, batch_size=config.batch_size)
    with run.writing() as writer:
        if resume is not None and (run.path / "lock.json").exists():
            _check_lock(run, lock)
            if run.plan() != list(plan):
                raise IntegrityError(f"{run.path} cannot be resumed: plan.jsonl is not the plan of its configuration")
        else:
            _write_beginning(run, writer, config, lock, plan)
        book = _Book(run, writer, config, plan, listen or _ignore)
        book.write("started")
        try:
            book.tell(None)
            owed = [planned for planned in plan if planned.key not in book.scored]
            async with aclosing(play(owed, setting, policy, jobs=config.jobs, retries=config.retries)) as stream:
                async for played in stream:
                    book.enter(played)
        except BaseException:
            book.write("cancelled")
            raise
        finally:
            await getattr(policy, "aclose", _nothing_async)()
        return book.finish()


def _ignore(progress: Progress) -> None:
    """Listen to nothing."""


def _nothing() -> None:
    """What a policy without `close` does."""


async def _nothing_async() -> None:
    """What a policy without `check` or `aclose` does."""


def _write_beginning(
    run: RunDirectory, writer: RunWriter, config: EvalConfig, lock: dict[str, Any], plan: Sequence[Planned]
) -> None:
    """Write everything that must be on disk before the first episode, the plan last."""
    write_text(run.path / "config.toml", config.write(run.path / "config.toml"))
    writer.write_plan(plan)
    write_json(run.path / "lock.json", lock)


def _check_lock(run: RunDirectory, lock: dict[str, Any]) -> None:
    must = [difference for difference in differences(run.lock, lock) if difference.kind == "match"]
    if must:
        said = "; ".join(f"{d.field} was {d.ours!r}, is {d.theirs!r}" for d in must)
        raise IntegrityError(f"{run.path} cannot be resumed, its circumstances changed: {said}")


def seal(state: Mapping[str, Any]) -> str:
    """Return the hash of a run.json without its seal.

    With the files' hashes in it, it finds what was changed by hand or by a failing disk. Who means to deceive can seal
    again; what `agentbench replay` then still finds is what the environment did not do.
    """
    return digest({key: value for key, value in state.items() if key != "seal"})


class _Book:
    """Keeps run.json in step with what was scored."""

    def __init__(
        self, run: RunDirectory, writer: RunWriter, config: EvalConfig, plan: Sequence[Planned], listen: Listener
    ) -> None:
        self.run = run
        self.listen = listen
        self.writer = writer
        self.config = config
        self.plan = plan
        self.rows = run.rows()
        self.scored = {row["key"] for row in self.rows if row["scored"]}
        self.began = time.time()

    def enter(self, played: Played) -> None:
        """Put an attempt on disk."""
        row = self.writer.append(played.planned, played.trajectory)
        self.rows.append(row)
        if row["scored"]:
            self.scored.add(row["key"])
        self.tell(row)

    def tell(self, row: Row | None) -> None:
        """Let the listener know where the run stands."""
        self.listen(Progress(self.run.path, len(self.plan), len(self.scored), row))

    def write(self, status: Status) -> dict[str, Any]:
        """Rewrite run.json and return the summary in it; that of a run which ended is sealed."""
        state: Row = {
            "status": status,
            "summary": summarise(self.plan, self.rows),
            "counts": {"planned": len(self.plan), "scored": len(self.scored), "attempts": len(self.rows)},
            "config": self.config.result_keys(),
            "config_digest": self.config.digest,
            "began": self.began,
            "ended": None if status == "started" else time.time(),
        }
        if status in ENDED:
            state["files"] = self.run.fingerprints()
            state["seal"] = seal(state)
        self.writer.write_state(**state)
        return state["summary"]  # type: ignore[no-any-return]

    def finish(self) -> Evaluated:
        """Judge whether the run is valid."""
        missing = 1 - len(self.scored) / len(self.plan)
        status: Status = "complete" if missing <= self.config.max_error_rate else "invalid"
        return Evaluated(self.run.path, status, self.write(status))


SHOWN = 300
"""Characters of a failure's message that the verdict on a run repeats."""


def require_valid(evaluated: Evaluated) -> None:
    """Refuse a run with too many unscored episodes.

    Raises:
        RunInvalid: Its coverage is too low.
    """
    if evaluated.status == "invalid":
        summary = evaluated.summary
        causes = ", ".join(f"{cause} {count}" for cause, count in summary["failures"].items()) or "none recorded"
        messages = [row["failure"]["message"] for row in RunDirectory(evaluated.run_dir).rows() if row["failure"]]
        last = f", the last one {messages[-1][:SHOWN]}" if messages else ""
        raise RunInvalid(
            f"only {summary['scored']} of {summary['planned']} episodes were scored (failures: {causes}{last}); "
            f"resume with --resume {evaluated.run_dir}"
        )
