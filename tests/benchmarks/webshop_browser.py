"""Episodes of the shop in a real browser, side by side: how many a second.

    python -m tests.benchmarks.webshop_browser [--out browser.json] [--jobs 8] [--episodes 24]

The oracle plays, so that an episode is a search, a product, its options and the purchase; every page is rendered and
every click is one. Times are by the clock, as a browser works in many processes; beside them stands what else the
machine had to do.
"""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path

from agentbench.core.registry import resolve
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.policies import scripted
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.pool import play


def measure(episodes: int, jobs: int) -> dict[str, float]:
    """Play so many episodes, `jobs` at a time; return what was counted, the start of the browser included."""
    resolved = resolve("webshop/browser")
    setting = Setting(resolved, Limits(resolved.max_turns))
    plan = plan_tasks(resolved, episodes, 1, 0)

    async def main() -> list[tuple[int, bool]]:
        ended = play(plan, setting, scripted.oracle(), jobs=jobs)
        return [(len(played.trajectory.turns), bool(played.trajectory.success)) async for played in ended]

    load = os.getloadavg()[0]
    began = time.perf_counter()
    ended = asyncio.run(main())
    seconds = time.perf_counter() - began
    turns = sum(count for count, _ in ended)
    return {
        "jobs": jobs,
        "episodes": len(ended),
        "won": sum(won for _, won in ended),
        "turns": turns,
        "seconds": round(seconds, 2),
        "episodes_per_second": round(len(ended) / seconds, 3),
        "steps_per_second": round(turns / seconds, 2),
        "cores": os.cpu_count() or 0,
        "load_before": round(load, 1),
    }


def main() -> int:
    """Measure one episode at a time and several, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=24)
    options = parser.parse_args()
    results = {f"{jobs} at a time": measure(options.episodes, jobs) for jobs in (1, options.jobs)}
    for name, result in results.items():
        print(
            f"{name}: {result['episodes']} episodes ({result['won']} won) in {result['seconds']} s, "
            f"{result['episodes_per_second']} episodes and {result['steps_per_second']} steps per second "
            f"(load before: {result['load_before']} on {result['cores']} cores)"
        )
    if options.out:
        options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return int(any(result["won"] < result["episodes"] for result in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
