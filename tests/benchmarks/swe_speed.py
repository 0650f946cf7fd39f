"""How long the parts of an SWE episode take, and how many episodes a second eight side by side make.

    python -m tests.benchmarks.swe_speed [--episodes 16] [--think 2] [--json FILE]

The oracle plays, at once and after a pause before each reply, as a language model would: with a spare sandbox for each
environment (one is started while another works), without, and in jails. The ways take turns, so that what else the
machine does falls on all of them; the load that it had is in the result.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentbench_envs.swe.env import SweEnv
from agentbench_envs.swe.tools import write

from agentbench.core.policy import EpisodeContext, Session
from agentbench.core.registry import resolve
from agentbench.core.types import Message, Reply, Sampling
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.policies.scripted import oracle
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.pool import play

JOBS = 8


@dataclass
class Thinking:
    """The oracle, with a pause before each reply."""

    seconds: float
    session: Session | None = None
    name: str = "thinking oracle"
    version: int = 0
    scripted: bool = True

    def start(self, episode: EpisodeContext) -> "Thinking":
        """Begin an episode."""
        return replace(self, session=oracle().start(episode))

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Wait, then answer."""
        assert self.session is not None
        await asyncio.sleep(self.seconds)
        return await self.session.reply(messages, sampling, seed=seed)

    async def close(self) -> None:
        """Nothing is held."""


def parts(sandbox: str, episodes: int, commands: int) -> dict[str, float]:
    """Median times of an episode alone, from the wish for a sandbox on."""
    starts, each, gradings = [], [], []
    env = SweEnv(split="train", sandbox=sandbox, spare=0)  # type: ignore[arg-type]
    for seed in range(episodes):
        _, info = env.reset(seed=seed)
        starts.append(info["start_seconds"])
        each += [env.step(write("bash", command="true")).info["seconds"] for _ in range(commands)]
        for action in env.oracle():
            step = env.step(action)
        assert step.info["success"], step.info
        gradings.append(step.info["seconds"])
    env.close()
    return {
        "start_s": round(statistics.median(starts), 3),
        "command_ms": round(1000 * statistics.median(each), 3),
        "submit_and_grade_s": round(statistics.median(gradings), 3),
    }


def waits(episodes: int, think: float) -> dict[str, dict[str, float]]:
    """Median times that a policy waits for start and grading if it thinks in between, without and with a spare."""
    envs = {spare: SweEnv(split="train", library="spans", spare=spare) for spare in (0, 1)}
    times: dict[int, list[tuple[float, float]]] = {spare: [] for spare in envs}
    for seed in range(episodes):
        for spare, env in envs.items():
            began = time.perf_counter()
            env.reset(seed=seed)
            ready = time.perf_counter()
            time.sleep(think)
            repair, submit = env.oracle()
            env.step(repair)
            time.sleep(think)
            before = time.perf_counter()
            assert env.step(submit).info["success"]
            times[spare].append((ready - began, time.perf_counter() - before))
    for env in envs.values():
        env.close()
    medians = {
        spare: [round(statistics.median(part), 3) for part in zip(*each, strict=True)] for spare, each in times.items()
    }
    return {
        f"spare {spare}": {"start_s": start, "submit_and_grade_s": grade} for spare, (start, grade) in medians.items()
    }


def rate(episodes: int, think: float, **arguments: Any) -> float:
    """Episodes a second, eight side by side."""
    resolved = resolve("swe", split="train", **arguments)
    plan = plan_tasks(resolved, episodes, 1, 0)

    async def main() -> list[bool | None]:
        setting = Setting(resolved, Limits(resolved.max_turns))
        return [played.trajectory.success async for played in play(plan, setting, Thinking(think), jobs=JOBS)]

    began = time.perf_counter()
    outcomes = asyncio.run(main())
    assert all(outcomes), outcomes
    return len(outcomes) / (time.perf_counter() - began)


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--alone", type=int, default=3, help="episodes whose parts are measured")
    parser.add_argument("--commands", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--think", type=float, default=2.0, help="seconds before each reply")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    result: dict[str, Any] = {
        "docker": parts("docker", options.alone, options.commands),
        "process": parts("process", options.alone, options.commands),
        "waits_of_a_policy_that_thinks": waits(2 * options.alone, options.think),
    }
    ways: dict[str, dict[str, Any]] = {
        "spare": {"spare": 1},
        "no spare": {"spare": 0},
        "process": {"sandbox": "process"},
    }
    rates: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for think in (0.0, options.think):
            for name, arguments in ways.items():
                rates.setdefault(f"{name}, {think:g} s of thought", []).append(
                    rate(options.episodes, think, **arguments)
                )
    result["episodes_per_second"] = {name: round(statistics.median(values), 3) for name, values in rates.items()}
    result |= {
        "episodes": options.episodes,
        "rounds": options.rounds,
        "side_by_side": JOBS,
        "cores": os.cpu_count(),
        "load_before": round(before, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "measured": time.strftime("%Y-%m-%d"),
    }
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
