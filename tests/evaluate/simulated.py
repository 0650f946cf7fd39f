"""Run directories with known outcomes, written as an evaluation writes them: for what is computed from runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentbench.core.records import Planned, RunDirectory, digest, turn_hash, write_json
from agentbench.core.seeding import generator
from agentbench.core.types import End, Reply, Trajectory, Turn
from agentbench.evaluate.evidence import Evidence
from agentbench.metrics.collect import summarise

LOCK: dict[str, Any] = {
    "env": "echo/3@0",
    "split": "test",
    "env_args": {"length": 3},
    "env_source": None,
    "instructions": "say it",
    "context": {"mode": "full", "format": "plain"},
    "limits": {"max_turns": 8, "max_tokens": None, "max_invalid": None, "max_seconds": None},
    "sampling": {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "max_tokens": 256, "stop": []},
    "seed": 0,
    "agentbench": "0.1.0",
    "batch_size": 32,
}
CONFIG = {"env": "echo", "model": "a checkpoint"}

Outcome = bool | None
"""Success, failure, or broken by infrastructure."""


def write_run(
    parent: Path,
    outcomes: Sequence[Sequence[Outcome]],
    *,
    policy: str = "model",
    status: str | None = None,
    actions: Mapping[tuple[int, int], Sequence[str]] | None = None,
    **lock: Any,
) -> Path:
    """Write a run and return its directory.

    Args:
        parent: Where; the directory gets a name of its own.
        outcomes: For each task, how each trial went.
        policy: Who played.
        status: Of the run; by default `complete`, or `invalid` where something was not scored.
        actions: What was said in the episode of a task and trial; by default one word per turn that depends on both
            and on the outcome.
        **lock: Fields of the lock that differ from `LOCK`.
    """
    run = RunDirectory.create(parent, "echo/3@0", policy)
    trials = max(map(len, outcomes))
    plan = [planned(task, trial) for trial in range(trials) for task in range(len(outcomes))]
    with run.writing() as writer:
        writer.write_plan(plan)
        write_json(run.path / "lock.json", {**LOCK, "panel": digest(len(outcomes)), "policy": policy, **lock})
        for number, episode in enumerate(plan):
            task, trial = number % len(outcomes), number // len(outcomes)
            outcome = outcomes[task][trial]
            said = (actions or {}).get((task, trial), (f"{task} {trial}", f"{outcome}"))
            writer.append(episode, trajectory(episode, outcome, said))
        rows = run.rows()
        status = status or ("complete" if all(row["scored"] for row in rows) else "invalid")
        writer.write_state(status=status, config=CONFIG, summary=summarise(plan, rows), counts={"planned": len(plan)})
    return run.path


def in_memory(outcomes: Sequence[Sequence[bool]], *, policy: str = "model") -> Evidence:
    """What would be read from the run that `write_run` writes, without the disk."""
    plan = tuple(planned(task, trial) for trial in range(len(outcomes[0])) for task in range(len(outcomes)))
    lock = {**LOCK, "panel": digest(len(outcomes)), "policy": policy}
    rows = {
        episode.key: {
            "key": episode.key,
            "scored": True,
            "end": "terminated",
            "failure": None,
            "success": outcomes[episode.seed][episode.trial],
            "hash": f"{policy} {episode.key}",
            **dict.fromkeys(("reward", "turns", "invalid", "tokens", "prompt_tokens"), 1),
            **dict.fromkeys(("env_seconds", "policy_seconds"), 0.0),
        }
        for episode in plan
    }
    return Evidence(Path(policy), "complete", CONFIG, lock, plan, rows, len(rows))


def planned(task: int, trial: int) -> Planned:
    """The plan of one episode."""
    name = digest("task", task)[:16]
    return Planned(digest(name, trial)[:16], name, task, trial)


def trajectory(episode: Planned, outcome: Outcome, actions: Sequence[str]) -> Trajectory:
    """One episode in which these words were said; the last one is paid if it succeeded."""
    turns: list[Turn] = []
    end: End = "failure" if outcome is None else "terminated"
    for k, action in enumerate(actions):
        reward = float(bool(outcome) and k == len(actions) - 1)
        last = end if k == len(actions) - 1 and outcome is not None else None
        link = turn_hash(turns[-1].hash if turns else "", f"observation {k}", action, reward, {"right": reward}, last)
        reply = Reply(action, token_ids=(1, 2, 3))
        turns.append(
            Turn(f"observation {k}", reply, action, reward, {"right": reward}, 0.0, True, {}, 0.001, 0.01, link)
        )
    failure = {"cause": "environment", "message": "it broke"} if outcome is None else None
    return Trajectory(
        "echo/3@0",
        "test",
        episode.task,
        episode.seed,
        episode.trial,
        turns=turns,
        success=outcome,
        failure=failure,
        end=end,
    )


def draw(name: int, tasks: int, trials: int, *, drop: float = 0.0) -> tuple[list[list[bool]], list[list[bool]]]:
    """Draw the outcomes of two policies on one panel of tasks whose difficulty varies, Beta(1/2, 1/2).

    Args:
        name: Decides the draw.
        tasks: Tasks.
        trials: Attempts at each.
        drop: What the second policy loses of its success rate on average: each task keeps the share 1 - 2 drop of its
            rate, whose mean is 1/2.
    """
    random = generator("simulated", name)
    rates = random.beta(0.5, 0.5, tasks)
    first, second = (random.random((tasks, trials)) < share * rates[:, None] for share in (1, 1 - 2 * drop))
    return first.tolist(), second.tolist()
