"""How often `compare` and `gate` are right, on simulated pairs of runs: false alarms, power, and what `ok` is worth.

    python -m tests.benchmarks.compare_power [--repetitions 100] [--out FILE]

Tasks have success rates from Beta(1/2, 1/2); a drop takes the same share of every rate, or whole tasks. Each size is
drawn anew in every repetition. The result in `results/` has 400 of each.
"""

import argparse
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentbench.core.seeding import generator
from agentbench.evaluate.baseline import Measured
from agentbench.evaluate.compare import Side, compare
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.gate import Rule, judge
from tests.evaluate.simulated import draw, in_memory, write_run

Outcomes = list[list[bool]]
SIZES = ((50, 1), (100, 1), (100, 4), (200, 4))
GUARDS = ((10, 3), (100, 3), (100, 4), (100, 8))
DROPS = (0.0, 0.05, 0.1)


def lose_whole(name: int, tasks: int, trials: int, drop: float) -> tuple[Outcomes, Outcomes]:
    """A policy that is certain of nine tenths of its tasks, and one that has lost the share `drop` of all of them."""
    random = generator("whole tasks", name)
    kinds = random.random(tasks)
    return [[kind < 0.9] * trials for kind in kinds], [[drop <= kind < 0.9] * trials for kind in kinds]


def spread(name: int, tasks: int, trials: int, drop: float) -> tuple[Outcomes, Outcomes]:
    return draw(name, tasks, trials, drop=drop)


def one(pair: tuple[Outcomes, Outcomes]) -> tuple[str, str]:
    """The verdicts of both commands on the second run against the first."""
    a, b = (in_memory(outcomes, policy=name) for outcomes, name in zip(pair, ("a", "b"), strict=True))
    return verdict(a, b), judge({a.env: b}, {a.env: Measured.of(a)}, Rule())[0].verdict


def verdict(a: Evidence, b: Evidence) -> str:
    comparison = compare([Side("a", (a,)), Side("b", (b,))])
    return comparison.pairs[0].verdict(0.05)


def guard(tasks: int, trials: int, repetitions: int) -> dict[str, Any]:
    """What the severity guard says of an unchanged policy, and what it would if one severe task were enough."""
    bare = guarded = regressed = 0
    for name in range(repetitions):
        a, b = (in_memory(outcomes, policy=who) for outcomes, who in zip(draw(name, tasks, trials), "ab", strict=True))
        found = judge({a.env: b}, {a.env: Measured.of(a)}, Rule())[0]
        assert found.compared is not None
        bare += bool(found.compared.severe)
        guarded += found.compared.guarded
        regressed += found.verdict == "regressed"
    counts = {"one severe task": bare, "guard": guarded, "regressed": regressed}
    return {"tasks": tasks, "trials": trials, **{word: round(n / repetitions, 4) for word, n in counts.items()}}


def on_disk(name: int, folder: Path) -> str:
    """The same through run directories."""
    return verdict(*(Evidence.load(write_run(folder, outcomes)) for outcomes in draw(name, 30, 2)))


def measure(world: Callable[..., Any], tasks: int, trials: int, drop: float, repetitions: int) -> dict[str, Any]:
    words: Counter[str] = Counter()
    for name in range(repetitions):
        words.update(one(world(name, tasks, trials, drop)))
    rates = {word: words[word] / repetitions for word in ("worse", "better", "regressed", "ok", "inconclusive")}
    size = {"world": world.__name__, "tasks": tasks, "trials": trials, "drop": drop}
    largest_error = math.sqrt(0.25 / repetitions)
    return {**size, **{k: round(v, 4) for k, v in rates.items()}, "standard_error_at_most": round(largest_error, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    rows = []
    print(f"{'world':<12}{'size':>9}{'drop':>6}   compare: better  worse   gate: regressed     ok  inconclusive")
    for world, tasks, trials, drop in [
        *((spread, *size, drop) for size in SIZES for drop in DROPS),
        *((lose_whole, tasks, 1, 0.05) for tasks in (60, 80, 100, 200)),
    ]:
        row = measure(world, tasks, trials, drop, options.repetitions)
        rows.append(row)
        print(
            f"{row['world']:<12}{tasks:>5} x {trials}{drop:>6.2f}{row['better']:>18.1%}{row['worse']:>7.1%}"
            f"{row['regressed']:>18.1%}{row['ok']:>7.1%}{row['inconclusive']:>14.1%}",
            flush=True,
        )
    guards = [guard(*size, options.repetitions) for size in GUARDS]
    for row in guards:
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        found = Counter(on_disk(name, Path(folder)) for name in range(options.repetitions))
    false = 1 - found["no difference"] / options.repetitions
    print(f"through run directories, 30 x 2, no difference: {false:.1%} called one")
    result = {"repetitions": options.repetitions, "rates": rows, "guard": guards, "false_alarms_on_disk": false}
    print(f"{time.perf_counter() - began:.0f} s")
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
