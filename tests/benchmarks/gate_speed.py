"""How long `agentbench gate --run` takes as a command, on 2,000 episodes. The goal is 2 s.

python -m tests.benchmarks.gate_speed [--json FILE]
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from tests.cli.command import COMMAND, environment
from tests.evaluate.simulated import draw, write_run

TASKS, TRIALS, REPETITIONS = 500, 4, 5
GOAL = 2.0


def timed(*arguments: object) -> float:
    """The fastest of some calls, in seconds."""
    taken = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        subprocess.run([*COMMAND, *map(str, arguments)], check=True, capture_output=True, env=environment())
        taken.append(time.perf_counter() - began)
    return min(taken)


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
        "gate_seconds": round(gate, 3),
        "goal_seconds": GOAL,
        "goal_met": gate < GOAL,
        "update_seconds": round(update, 3),
        "compare_seconds": round(compare, 3),
        "compare_page_seconds": round(page, 3),
        "baseline_bytes": size,
    }
    for key, value in result.items():
        print(f"{key:<22} {value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
