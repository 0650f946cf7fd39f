"""What `agentbench --help` and `import agentbench` cost over the libraries that they cannot do without.

    python -m tests.benchmarks.import_time [--json FILE] [--repeats 15]

Every measurement is a fresh process; the ways take turns, and the fastest run of each counts, so that other load on the
machine falls out. The base is every module of the package's own dependencies that the command loads: found, not listed.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

DEPENDENCIES = ("gymnasium", "numpy", "scipy", "pydantic", "typer", "rich", "httpx", "tomli_w", "rapidfuzz")
TARGET = 1.5

HELP = "import sys; sys.argv = ['agentbench', '--help']; from agentbench.cli.main import run; run()"


def loaded_by(code: str) -> list[str]:
    """Return every module of the package's dependencies that some code loads, in the order of loading."""
    ask = f"import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{code}"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return [name for name in done.stderr.split() if name.split(".")[0] in DEPENDENCIES]


def seconds(code: str) -> float:
    """Return processor seconds, user and system, of a fresh process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    codes = {"import agentbench": "import agentbench", "agentbench --help": HELP}
    result = {}
    for name, code in codes.items():
        base = loaded_by(code)
        ways = {"bare Python": "pass", "its base": f"import {', '.join(base)}", "all of it": code}
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(arguments.repeats):
            best = {way: min(best[way], seconds(ways[way])) for way in ways}
        ratio = best["all of it"] / best["its base"]
        result[name] = {**{f"{way}, ms": round(1000 * cost, 1) for way, cost in best.items()}, "ratio": round(ratio, 3)}
        verdict = "held" if ratio <= TARGET else "MISSED"
        libraries = ", ".join(dict.fromkeys(module.split(".")[0] for module in base))
        print(f"{name}: {1000 * best['all of it']:.0f} ms of CPU; {libraries}: {1000 * best['its base']:.0f} ms")
        print(f"  ratio {ratio:.2f}, target at most {TARGET}: {verdict}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"target": TARGET, **result}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
