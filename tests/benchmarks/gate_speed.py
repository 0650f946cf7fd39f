"""How long `agentbench gate --run` takes as a command, on 2,000 episodes. The goal is 2 s.

python -m tests.benchmarks.gate_speed [--json FILE]
"""

import argparse
import json
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.cli.command import COMMAND, environment
from tests.evaluate.simulated import draw, write_run

TASKS, TRIALS, REPETITIONS = 500, 4, 3
GOAL = 2.0


class Taken(NamedTuple):
    """The least of some calls, in seconds."""

    wall: float
    cpu: float


def timed(*arguments: object) -> Taken:
    wall, cpu = [], []
    for _ in range(REPETITIONS):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*COMMAND, *map(str, arguments)], check=True, capture_output=True, env=environment())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall.append(time.perf_counter() - began)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Taken(min(wall), min(cpu))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before, after = (write_run(folder, outcomes) for outcomes in draw(0, TASKS, TRIALS))
        baseline = folder / "baseline.json"
        update = timed("gate", "--run", before, "--baseline", baseline, "--update-baseline")
        gate = timed("gate", "--run", after, "--baseline", baseline, "--junit", folder / "junit.xml")
        compare = timed("compare", before, after)
        page = timed("compare", before, after, "-o", folder / "page.html")
        size = baseline.stat().st_size
    result = {
        "episodes": TASKS * TRIALS,
        "gate_seconds": round(gate.wall, 3),
        "gate_cpu_seconds": round(gate.cpu, 3),
        "goal_seconds": GOAL,
        "goal_met": gate.wall < GOAL,
        "update_seconds": round(update.wall, 3),
        "compare_seconds": round(compare.wall, 3),
        "compare_cpu_seconds": round(compare.cpu, 3),
        "compare_page_seconds": round(page.wall, 3),
        "compare_page_cpu_seconds": round(page.cpu, 3),
        "baseline_bytes": size,
    }
    for key, value in result.items():
        print(f"{key:<22} {value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
