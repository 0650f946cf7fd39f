"""How long the parts of an SWE episode take: start, one command, submitting and grading.

python -m tests.benchmarks.swe_speed [--episodes 5] [--json FILE]
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from agentbench_envs.swe.env import SweEnv
from agentbench_envs.swe.tools import write


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--commands", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    starts, commands, gradings = [], [], []
    env = SweEnv(split="all")
    for seed in range(options.episodes):
        _, info = env.reset(seed=seed)
        starts.append(info["start_seconds"])
        commands += [env.step(write("bash", command="true")).info["seconds"] for _ in range(options.commands)]
        for action in env.oracle():
            step = env.step(action)
        assert step.info["success"], step.info
        gradings.append(step.info["seconds"])
    env.close()
    result = {
        "episodes": options.episodes,
        "start_s": statistics.median(starts),
        "command_ms": 1000 * statistics.median(commands),
        "submit_and_grade_s": statistics.median(gradings),
        "measured": time.strftime("%Y-%m-%d"),
    }
    for name, value in result.items():
        print(f"{name:20} {value if isinstance(value, str | int) else round(value, 3)}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
