"""Peak memory of training the 0.36M-parameter model with GRPO, twelve turns, on a CPU: one process per size.

    python -m tests.benchmarks.train_memory [--json FILE] [--episodes 96 128]

The game and the recipe are `trl_speed`'s. The target, 0.6 GB, is held at 96 episodes of twelve turns, the batch of the
study that it comes from; 128 stand beside it. `imports` is what the process has before it begins.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from agentbench.policies.init import init_named
from agentbench.train.loop import train
from tests.benchmarks.trl_speed import MEMORY_TARGET, peak_gigabytes, recipe, verdict

UPDATES = 4


def measure(episodes: int) -> dict[str, float]:
    """Train in this process; return its peaks in GB."""
    before = peak_gigabytes()
    with tempfile.TemporaryDirectory() as scratch:
        model = init_named("xs", Path(scratch) / "model")
        train(recipe(model, Path(scratch), game="full", episodes=episodes, tokens=2, updates=UPDATES))
    return {"imports": before, "peak": peak_gigabytes()}


def main() -> None:
    """Print the peaks, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--episodes", type=int, nargs="+", default=[96, 128])
    parser.add_argument("--here", type=int, help="measure this size in this process, and print JSON")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(measure(arguments.here)))
        return
    results = {}
    for episodes in arguments.episodes:
        command = [sys.executable, "-P", "-m", "tests.benchmarks.train_memory", "--here", str(episodes)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[f"{episodes} episodes"] = found = json.loads(said.splitlines()[-1])
        told = verdict(MEMORY_TARGET if episodes == 96 else None, found["peak"], at_least=False)
        print(f"{episodes:4} episodes: {found['peak']:.2f} GB, of it imports {found['imports']:.2f}{told}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"updates": UPDATES, **results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
