"""What the printed intervals cover, and how often the printed verdicts are wrong: simulation, with the truth known.

    python -m tests.benchmarks.coverage [--json FILE] [--repeats 1000] [--page FILE]

A world has a mean success rate m; its tasks' own rates are Beta(m, 1 - m), so that most tasks are nearly always or
nearly never solved. Another policy is alike, or has lost something: spread (each task keeps the same share of its rate)
or whole (some tasks are lost, the others stay). Every number is a share of repetitions; 1000 of them give a standard
error of .007 at .95 or .05. `--page` rewrites the tables of docs/notes/what-the-intervals-cover.md.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agentbench.core.seeding import generator
from agentbench.evaluate.power import Question, noise_of
from agentbench.metrics.intervals import Array
from agentbench.metrics.stats import (
    Components,
    Estimate,
    bootstrap,
    iqm,
    mean_interval,
    median,
    non_inferior,
    paired,
    power_of,
    ratio,
    success_interval,
    tasks_to_trust,
    wilson,
)

RATES = (0.02, 0.1, 0.5, 0.9, 0.98)
TASKS = (30, 100, 300)
TRIALS = (1, 4)
DROP, MARGIN, LEVEL = 0.1, 0.05, 0.05
DRAWS = 500

Row = dict[str, float | None]


class World(NamedTuple):
    """Tasks whose success rates vary around a mean."""

    rate: float
    tasks: int
    trials: int

    @property
    def name(self) -> tuple[float, int, int]:
        return (self.rate, self.tasks, self.trials)


def rows(repeats: int) -> Iterator[Row]:
    for world in (World(m, n, k) for m in RATES for n in TASKS for k in TRIALS):
        row: Row = {"rate": world.rate, "tasks": world.tasks, "trials": world.trials}
        rng = generator("coverage", *world.name)
        seen = [repetition(world, rng) for _ in range(repeats)]
        yield row | {name: share([one[name] for one in seen]) for name in seen[0]} | predicted(world)


def share(values: Sequence[bool | None]) -> float | None:
    return None if None in values else float(np.mean(np.array(values, dtype=bool)))


def repetition(world: World, rng: np.random.Generator) -> dict[str, bool | None]:
    """Draw one panel and two runs of it, and say which of our claims about them are true."""
    m, n, k = world
    rates = rng.beta(m, 1 - m, n)

    def play(true: Array) -> Array:
        return rng.binomial(k, true) / k

    a = play(rates)
    headline, same = success_interval(a, trials=k), play(rates)
    alike, unharmed = paired(a, same), non_inferior(a, same, margin=MARGIN)
    said: dict[str, bool | None] = {
        "headline covers": covers(headline, m),
        "effective Wilson covers": covers(effective_wilson(a), m),
        "episodes as independent cover": covers(wilson(k * a.sum(), n * k), m),
        "false alarm": alike.p_value <= LEVEL,
        "false alarm of t": not alike.low <= 0 <= alike.high,
        "equal: ok": unharmed.ok,
        "equal: cautious ok": unharmed.cautious > -MARGIN,
    }
    for name, lose in (("spread", spread), ("whole", whole)):
        worse = non_inferior(a, play(lose(rates, MARGIN / m, rng)), margin=MARGIN) if m > MARGIN else None
        said[f"{name} loss: ok"] = worse and worse.ok
        said[f"{name} loss: cautious ok"] = worse and worse.cautious > -MARGIN
        dropped = paired(a, play(lose(rates, DROP / m, rng))) if m > DROP else None
        said[f"{name} drop found"] = dropped and dropped.p_value <= LEVEL
        said[f"{name} drop covered"] = dropped and dropped.low <= -DROP <= dropped.high
    return said


def effective_wilson(means: Array) -> Estimate:
    """The rival of the headline: Wilson with as many tasks as would give the error that was seen."""
    m, n = float(means.mean()), len(means)
    variance = float(means.var(ddof=1))
    effective = n * m * (1 - m) / variance if variance else n
    return wilson(m * effective, effective)


def spread(rates: Array, lost: float, rng: np.random.Generator) -> Array:
    return rates * (1 - lost)


def whole(rates: Array, lost: float, rng: np.random.Generator) -> Array:
    return np.where(rng.random(len(rates)) < lost, 0.0, rates)


def covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low <= truth <= estimate.high


def predicted(world: World) -> Row:
    """What `agentbench power` says beforehand, told the true variance of the world."""
    m, n, k = world
    if m <= DROP:
        return {"spread drop predicted": None, "whole drop predicted": None}
    # The variance of Beta(m, 1 - m) is m (1 - m) / 2; the rest is the luck of single trials.
    variance = Components(m * (1 - m) / 2, m * (1 - m) / 2, m, n, k)
    noise = noise_of(variance, Question(delta=DROP), k)
    return {
        "spread drop predicted": power_of(noise.spread, DROP, n, step=1 / k),
        "whole drop predicted": power_of(noise.whole, DROP, n, step=1 / k),
    }


def resampled(repeats: int) -> Iterator[Row | dict[str, Any]]:
    """Bootstrap intervals over tasks: task means of 4 trials, and cost per success where a fifth succeeds."""
    rng = generator("bootstrap worlds")
    means = rng.binomial(4, rng.beta(0.5, 0.5, 1_000_000)) / 4
    truths = {"median": float(np.median(means)), "iqm": float(iqm(means)), "cost per success": 500.0}
    statistics = {"median": median, "iqm": iqm, "cost per success": ratio}
    for name, statistic in statistics.items():
        for n in TASKS:
            covered = 0
            for number in range(repeats):
                sample = (
                    np.column_stack([rng.gamma(2.0, 50.0, n), rng.random(n) < 0.2])
                    if name == "cost per success"
                    else rng.binomial(4, rng.beta(0.5, 0.5, n)) / 4
                )
                covered += covers(bootstrap(statistic, sample, draws=DRAWS, seed=number), truths[name])
            yield {"statistic": name, "units": n, "covers": covered / repeats}


def sized(repeats: int) -> Iterator[Row]:
    """How often an equal policy is trusted at the size that promises 80 %."""
    for world in (World(m, 0, k) for m in (0.5, 0.9, 0.98) for k in (1, 4, 16)):
        m, k = world.rate, world.trials
        world = world._replace(tasks=tasks_to_trust((m * (1 - m) / k) ** 0.5, MARGIN))
        rng = generator("sizes", *world.name)
        trusted = 0
        for _ in range(repeats):
            rates = rng.beta(m, 1 - m, world.tasks)
            a, b = (rng.binomial(k, rates) / k for _ in range(2))
            trusted += non_inferior(a, b, margin=MARGIN).trusted > -MARGIN
        yield {"rate": m, "trials": k, "tasks": world.tasks, "ok": trusted / repeats}


def over_training_seeds(repeats: int) -> Iterator[dict[str, Any]]:
    """Intervals of a mean over training runs, whose scores are bell-shaped, or which collapse in one case of five."""

    def plain_percentiles(scores: Array, seed: int) -> Estimate:
        drawn = scores[generator(seed).integers(len(scores), size=(DRAWS, len(scores)))].mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        return Estimate(float(scores.mean()), float(low), float(high), len(scores))

    def mean(sample: Array) -> Array:
        return np.asarray(sample.mean(axis=(-2, -1)))

    kinds: dict[str, Callable[[Array, int], Estimate]] = {
        "t": lambda scores, seed: mean_interval(scores),
        "bootstrap": lambda scores, seed: bootstrap(mean, scores, draws=DRAWS, seed=seed),
        "plain percentiles": plain_percentiles,
    }
    for seeds in (3, 5, 8, 16):
        rng = generator("seed worlds", seeds)
        bells = rng.normal(0.6, 0.1, (repeats, seeds))
        collapses = bells * (rng.random((repeats, seeds)) < 0.8)
        for name, scores, truth in (("bell", bells, 0.6), ("collapses", collapses, 0.48)):
            shares = {
                kind: sum(covers(interval(run, number), truth) for number, run in enumerate(scores)) / repeats
                for kind, interval in kinds.items()
            }
            yield {"scores": name, "seeds": seeds, **shares}


def summary(grid: Sequence[Row]) -> dict[str, float]:
    """The ends of every column, for the table of `make bench`."""
    ends: dict[str, float] = {}
    for name in list(grid[0])[3:]:
        values = [value for row in grid if (value := row[name]) is not None]
        ends |= {f"{name}, least": min(values), f"{name}, most": max(values)}
    return ends


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Write rows as a Markdown table, shares in percent."""

    def cell(name: str, value: Any) -> str:
        if value is None:
            return "-"
        counted = name in ("rate", "tasks", "trials", "units", "seeds") or isinstance(value, str)
        return str(value) if counted else f"{100 * value:.1f}"

    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(cell(name, row[name]) for name in columns) + " |" for row in rows)])


def tables(result: dict[str, Any]) -> dict[str, str]:
    """The tables of the page, by name."""
    panel, grid = ["rate", "tasks", "trials"], result["grid"]
    known = [row for row in grid if row["whole loss: ok"] is not None]
    dropped = [row for row in grid if row["whole drop found"] is not None]
    covering = ["headline covers", "effective Wilson covers", "episodes as independent cover"]
    oks = [f"{world}: {way}" for world in ("spread loss", "whole loss", "equal") for way in ("ok", "cautious ok")]
    found = [f"{kind} drop {what}" for kind in ("spread", "whole") for what in ("found", "predicted", "covered")]
    return {
        "headline": table(grid, [*panel, *covering]),
        "alike": table(grid, [*panel, "false alarm", "false alarm of t"]),
        "dropped": table(dropped, [*panel, *found]),
        "margin": table(known, [*panel, *oks]),
        "sizes": table(result["sizes"], ["rate", "trials", "tasks", "ok"]),
        "bootstrap": table(result["bootstrap"], ["statistic", "units", "covers"]),
        "seeds": table(result["seeds"], ["scores", "seeds", "t", "bootstrap", "plain percentiles"]),
    }


def page_with(text: str, tables: dict[str, str]) -> str:
    """Return a page with its generated tables replaced."""
    for name, body in tables.items():
        begin, end = f"<!-- {name}: generated by tests/benchmarks/coverage.py -->\n", "\n<!-- end -->"
        before, _, rest = text.partition(begin)
        text = before + begin + body + end + rest.partition(end)[2] if rest else text
    return text


def simulate(repeats: int) -> dict[str, Any]:
    grid = list(rows(repeats))
    return {
        "nominal": 0.95,
        "level": LEVEL,
        "drop": DROP,
        "margin": MARGIN,
        "repeats": repeats,
        "summary": summary(grid),
        "grid": grid,
        "sizes": list(sized(repeats)),
        "bootstrap": list(resampled(repeats)),
        "seeds": list(over_training_seeds(repeats)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--repeats", type=int, default=1000)
    arguments = parser.parse_args()
    result = simulate(arguments.repeats)
    for name, body in tables(result).items():
        print(f"\n{name}\n{body}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if arguments.page:
        page = arguments.page
        page.write_text(page_with(page.read_text(encoding="utf-8"), tables(result)), encoding="utf-8")


if __name__ == "__main__":
    main()
