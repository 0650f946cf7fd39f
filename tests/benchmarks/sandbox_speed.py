"""What a sandbox costs: starting, a command in its shell, files, and many episodes side by side.

    python -m tests.benchmarks.sandbox_speed [--json FILE] [--episodes 32]

Beside it, one `docker exec` of the same command: what a harness pays that starts a process for every command.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agentbench.sandbox import images
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.engine import engine
from agentbench.sandbox.jail import Jail
from agentbench.sandbox.pool import Pool
from agentbench.sandbox.process import ProcessSandbox

LIMITS = Limits(memory=256, disk=64)


def median_ms(action: Callable[[], object], times: int) -> float:
    """Median milliseconds of an action."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return round(statistics.median(taken) * 1e3, 3)


def measure(make: Callable[[], Jail]) -> dict[str, float]:
    """Measure one kind of sandbox."""

    def once() -> None:
        with make():
            pass

    with make() as sandbox:
        sandbox.put({"file": b"x" * 10_000})
        found = {
            "command_ms": median_ms(lambda: sandbox.exec("true"), 300),
            "put_10kB_ms": median_ms(lambda: sandbox.put({"file": b"x" * 10_000}), 50),
            "get_10kB_ms": median_ms(lambda: sandbox.get("file"), 50),
        }
    return {"start_and_close_ms": median_ms(once, 5), **found}


def bare_exec(image: str) -> float:
    """Median milliseconds of a command that is a `docker exec` of its own, by the same client."""
    api = engine()
    with DockerSandbox(image, LIMITS) as sandbox:
        container = sandbox.container

        def once() -> None:
            api.exec_start(api.exec_create(container, ["true"], user=LIMITS.user)["Id"])

        return median_ms(once, 20)


def throughput(image: str, episodes: int) -> float:
    """Episodes a minute, of twenty commands each, eight side by side from a warm pool."""
    with Pool(lambda: DockerSandbox(image, LIMITS), spare=4) as pool, ThreadPoolExecutor(8) as threads:

        def episode(_: int) -> None:
            with pool.take() as sandbox:
                for _ in range(20):
                    sandbox.exec("ls / >/dev/null")

        began = time.perf_counter()
        list(threads.map(episode, range(episodes)))
        return round(60 * episodes / (time.perf_counter() - began), 1)


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--episodes", type=int, default=32)
    arguments = parser.parse_args()
    image = images.build("base").id
    before = os.getloadavg()[0]
    result: dict[str, Any] = {
        "docker": measure(lambda: DockerSandbox(image, LIMITS)),
        "process": measure(lambda: ProcessSandbox(LIMITS)),
        "bare_docker_exec_ms": bare_exec(image),
        "episodes_per_minute": throughput(image, arguments.episodes),
        "cores": os.cpu_count(),
        "load_before": round(before, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "measured": time.strftime("%Y-%m-%d"),
    }
    for kind in ("docker", "process"):
        result[kind]["command_below_bare_exec_ms"] = round(
            result["bare_docker_exec_ms"] - result[kind]["command_ms"], 3
        )
    print(json.dumps(result, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
