"""What `make bench` runs: every benchmark in this folder, one after another, then a summary.

    python -m tests.benchmarks [NAME ...]

A benchmark is a script here with a `--json` or `--out` option: it prints for people and writes its result as JSON to
the file of that option. The results go to `.bench/NAME.json`; the ones kept in git are in `results/`.
"""

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / ".bench"


class Outcome(NamedTuple):
    """How one benchmark ended."""

    name: str
    exit: int
    seconds: float
    result: Any


def benchmarks() -> dict[str, str]:
    """Return the option that takes the result file, by name of the benchmark."""
    found = {}
    for path in sorted(HERE.glob("[a-z]*.py")):
        option = re.search(r'add_argument\("(--json|--out)"', path.read_text(encoding="utf-8"))
        if option:
            found[path.stem] = option.group(1)
    return found


def run(name: str, option: str) -> Outcome:
    """Run one benchmark in a process of its own."""
    print(f"--- {name}", flush=True)
    file = RESULTS / f"{name}.json"
    file.unlink(missing_ok=True)
    began = time.perf_counter()
    # -P keeps this folder off the path: a benchmark may have the name of a library.
    command = [sys.executable, "-P", "-m", f"tests.benchmarks.{name}", option, str(file)]
    done = subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    result = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return Outcome(name, done.returncode, time.perf_counter() - began, result)


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a result with its dotted path; lists are too long for a summary."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def main() -> int:
    """Run what was asked for; fail if one of them did."""
    RESULTS.mkdir(exist_ok=True)
    known = benchmarks()
    wanted = sys.argv[1:] or list(known)
    unknown = set(wanted) - set(known)
    if unknown:
        print(f"no benchmark {', '.join(sorted(unknown))}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    outcomes = [run(name, known[name]) for name in wanted]
    print(f"\nPython {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores; results in .bench/")
    for outcome in outcomes:
        verdict = "ok" if outcome.exit == 0 else f"exit {outcome.exit}"
        print(f"\n{outcome.name}: {verdict}, {outcome.seconds:.0f} s")
        for path, value in numbers(outcome.result):
            print(f"  {path:<60} {value:>14,.3f}")
    return int(any(outcome.exit for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
