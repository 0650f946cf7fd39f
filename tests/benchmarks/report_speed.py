"""How long `agentbench report` takes on an evaluation of 2,000 episodes, and how large its page is.

    python -m tests.benchmarks.report_speed [--json FILE] [--episodes 2000]

The run is made here, ten turns of forty traced tokens an episode; what is measured is the command, from start to
end, in a process of its own: wall time, and the CPU time that other load on the machine does not change.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agentbench.core.types import Reply, Turn
from tests.report.written import turn_of, write_evaluation

TARGET = 10.0


def long_turn(k: int) -> Turn:
    """One turn with an observation of some lines and forty tokens."""
    turn = turn_of("#####\n#__P#\n" * 8, "left || up || right", reward=0.1 * (k == 9))
    numbers = tuple(0.01 * (j + k) for j in range(40))
    turn.reply = Reply(turn.reply.text, token_ids=tuple(range(40)), logprobs=numbers, entropies=numbers, values=numbers)
    return turn


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--episodes", type=int, default=2000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        turns = [long_turn(k) for k in range(10)]
        run = write_evaluation(Path(folder), [(turns, i % 3 > 0) for i in range(arguments.episodes)])
        page = Path(folder) / "page.html"
        command = [sys.executable, "-m", "agentbench.cli", "report", str(run), "-o", str(page)]
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        size = page.stat().st_size
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    verdict = "held" if seconds <= TARGET else "MISSED"
    print(f"report on {arguments.episodes} episodes: {seconds:.1f} s ({cpu:.1f} s of CPU), page {size / 1e6:.1f} MB")
    print(f"  target at most {TARGET:.0f} s: {verdict}")
    if arguments.json:
        result = {"episodes": arguments.episodes, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2)}
        arguments.json.write_text(json.dumps({**result, "page_bytes": size, "target": TARGET}, indent=2) + "\n")


if __name__ == "__main__":
    main()
