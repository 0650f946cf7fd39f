"""What the harness costs per turn: whole episodes through the pool, against the same actions played bare.

    python tests/benchmarks/harness_overhead.py [--json FILE]

The policy is a constant (`up`), so that everything but the environment's own steps is the harness: threads, messages,
seeds, hash chain, records in memory; `with records` adds the run directory with its fsyncs. Bare and harnessed
repeats are interleaved in one process, and the fastest of each counts.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentbench.core.records import Planned, RunDirectory
from agentbench.core.registry import resolve
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.pool import play
from agentbench.testing import ScriptedPolicy

REPEATS = 5
EPISODES = 50
TARGET_MICROSECONDS = 150


def bare(setting: Setting, plan: list[Planned]) -> tuple[float, int]:
    """Play the actions in a plain loop; return seconds and turns."""
    env = setting.resolved.make()
    began, turns = time.perf_counter(), 0
    for planned in plan:
        env.reset(seed=planned.seed)
        for _ in range(setting.limits.max_turns):
            step = env.step("up")
            turns += 1
            if step.terminated or step.truncated:
                break
    return time.perf_counter() - began, turns


def harnessed(setting: Setting, plan: list[Planned], jobs: int, folder: Path | None) -> tuple[float, int]:
    """Play the same through the pool; return seconds and turns."""

    async def main() -> int:
        turns = 0
        writer = RunDirectory.create(folder, "bench", "constant").writing() if folder else None
        async for planned, trajectory in play(plan, setting, ScriptedPolicy(lambda _: "up"), jobs=jobs):
            turns += len(trajectory.turns)
            if writer is not None:
                writer.append(planned, trajectory)
        return turns

    began = time.perf_counter()
    turns = asyncio.run(main())
    return time.perf_counter() - began, turns


def measure() -> dict[str, float]:
    """Return microseconds per turn of each way to play."""
    resolved = resolve("sokoban/6x6-1")
    setting = Setting(resolved, Limits(resolved.max_turns))
    plan = plan_tasks(resolved, EPISODES, 1, 0)
    best: dict[str, float] = {}
    ways: dict[str, Callable[[], tuple[float, int]]]
    with tempfile.TemporaryDirectory() as scratch:
        ways = {
            "bare environment": lambda: bare(setting, plan),
            "harness, jobs 1": lambda: harnessed(setting, plan, 1, None),
            "harness, jobs 8": lambda: harnessed(setting, plan, 8, None),
            "harness with records, jobs 8": lambda: harnessed(setting, plan, 8, Path(scratch)),
        }
        for _ in range(REPEATS):
            for name, way in ways.items():
                seconds, turns = way()
                best[name] = min(best.get(name, float("inf")), 1e6 * seconds / turns)
    return best


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    best = measure()
    base = best["bare environment"]
    print(f"{'':32} {'us per turn':>12} {'overhead':>10}")
    for name, cost in best.items():
        print(f"{name:32} {cost:12.1f} {cost - base:10.1f}")
    overhead = best["harness, jobs 8"] - base
    print(f"target: under {TARGET_MICROSECONDS} us; {'held' if overhead < TARGET_MICROSECONDS else 'MISSED'}")
    if arguments.json:
        result = {"microseconds_per_turn": best, "overhead": overhead, "target": TARGET_MICROSECONDS}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
