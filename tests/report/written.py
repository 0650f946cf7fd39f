"""Run directories with known contents, written as `agentbench eval` and `agentbench train` write them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentbench.core.records import Planned, RunDirectory, RunWriter, turn_hash, write_json, write_text
from agentbench.core.types import Reply, Trajectory, Turn
from agentbench.metrics.collect import summarise
from tests.evaluate.simulated import CONFIG, LOCK, planned

CRITIC = (0.5, 0.25)


def turn_of(observation: str, reply: str, *, reward: float = 0.0, traced: bool = True, **more: Any) -> Turn:
    """One turn; traced, it has two tokens with entropies 0.5 and 1.5, values and advantages."""
    tokens: dict[str, Any] = {}
    if traced:
        tokens = {"token_ids": (1, 2), "logprobs": (-0.5, -1.0), "entropies": (0.5, 1.5), "values": CRITIC}
    return Turn(
        observation=observation,
        reply=Reply(reply, **tokens, policy_version=3),
        action=reply,
        reward=reward,
        terms={"right": reward},
        potential=0.0,
        valid=True,
        info={},
        env_seconds=0.01,
        policy_seconds=0.02,
        hash="",
        advantages=(0.1, -0.2) if traced else None,
        **more,
    )


def trajectory_of(episode: Planned, turns: Sequence[Turn], success: bool | None, final: str = "the end") -> Trajectory:
    """One episode with the hash chain that its turns make; success None is a failure of infrastructure."""
    end: Any = "failure" if success is None else "terminated"
    failure = {"cause": "environment", "message": "it broke"} if success is None else None
    previous, turns = "", [replace(turn) for turn in turns]
    for k, turn in enumerate(turns):
        last = end if k == len(turns) - 1 and end == "terminated" else None
        previous = turn.hash = turn_hash(previous, turn.observation, turn.action, turn.reward, turn.terms, last)
    return Trajectory(
        "echo/3@0", "test", episode.task, episode.seed, episode.trial, 0, turns, final,
        success=success, failure=failure, end=end,
    )  # fmt: skip


def write_evaluation(
    parent: Path, episodes: Sequence[tuple[Sequence[Turn], bool | None]], policy: str = "model"
) -> Path:
    """Write an evaluation of single trials, one task per episode."""
    run = RunDirectory.create(parent, "echo/3@0", policy)
    plan = [planned(task, 0) for task in range(len(episodes))]
    with run.writing() as writer:
        writer.write_plan(plan)
        write_json(run.path / "lock.json", {**LOCK, "panel": "p", "policy": policy})
        for episode, (turns, success) in zip(plan, episodes, strict=True):
            writer.append(episode, trajectory_of(episode, turns, success))
        _finish(run, writer, plan)
    return run.path


def _finish(run: RunDirectory, writer: RunWriter, plan: Sequence[Planned]) -> None:
    summary = summarise(plan, run.rows())
    writer.write_state(status="complete", config=CONFIG, summary=summary, counts={"planned": len(plan)})


def write_training(
    parent: Path, seed: int = 0, updates: int = 6, *, better: float = 0.0, algorithm: str = "turn-ppo"
) -> Path:
    """Write a training run of three stages whose numbers grow with the update."""
    run = RunDirectory.create(parent, "echo/3@0", algorithm)
    rows = [update_row(update, updates, better + 0.01 * seed, algorithm) for update in range(1, updates + 1)]
    write_text(run.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write_json(run.path / "lock.json", {**LOCK, "panel": "p", "policy": "xs"})
    config = {"env": "echo", "algorithm": {"name": algorithm}, "seed": seed, "out": str(parent), "note": better}
    write_json(run.path / "run.json", {"kind": "train", "status": "complete", "config": config, "choices": [algorithm]})
    with run.writing() as writer:
        for task, success in enumerate((True, False)):
            turns = [turn_of("say red", "red", reward=1.0), turn_of("say blue", "green")]
            writer.append(planned(task, 0), trajectory_of(planned(task, 0), turns, success))
    return run.path


def update_row(update: int, updates: int, better: float, algorithm: str) -> dict[str, Any]:
    """One row of metrics.jsonl."""
    share = update / updates
    row: dict[str, Any] = {
        "stage": "warm-start" if update == 1 else "value-pretraining" if update == 2 else algorithm,
        "update": update,
        "episode/reward": share + better,
        "episode/reward_error": 0.1,
        "episode/success": min(1.0, 0.9 * share + better),
        "episode/success_error": 0.05,
        "episode/turns": 2.0,
        "episode/tokens": 4.0,
        "episode/invalid": 0.1 * (1 - share),
        "policy/entropy": 1.0 - 0.5 * share,
        "policy/kl_reference": 0.01 * update,
        "policy/clip_fraction": 0.1 * share,
        "policy/clip_fraction_low": 0.04 * share,
        "policy/clip_fraction_high": 0.06 * share,
        "policy/grad_norm": 2.0 - share,
        "policy/staleness": 0.0,
        "value/explained_variance": share,
        "value/mean": share,
        "value/return": 1.0,
        "time/seconds": 2.0,
        "time/rollout_seconds": 1.2,
        "time/update_seconds": 0.8,
        "total/episodes": 16 * update,
        "total/tokens": 64 * update,
        "total/cpu_seconds": 2.0 * update,
        **{f"entropy/turn_{k}": 1.0 - 0.1 * k - 0.3 * share for k in range(3)},
        **{f"entropy/token_{place}": 1.0 - 0.05 * place for place in (0, 1, 2, 4)},
    }
    if update % 2 == 0:
        row |= {"valid/success": min(1.0, share), "valid/reward": share, "valid/episodes": 8}
    return row


HOSTILE = (
    "</script><script>window.owned = 1</script>",
    "<!-- <script> <img src=x onerror=window.owned=1>",
    "]]></pre></td></tr></table><h1>owned</h1>",
    "| a | b |\n| --- | --- |\n# heading `code` [link](javascript:window.owned=1)",
    "\x1b[2J\x1b]0;owned\x07\u202eevil\x00\x9b31m\ud800",
    "{{ 7 * 7 }} {% for x in y %} ${owned} $\\alpha$ %s {0}",
    "&lt;b&gt; &amp; \"quotes\" 'single' \u2028\u2029",
    "",
)
