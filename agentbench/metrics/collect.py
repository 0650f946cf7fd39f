"""From the rows of a run to its summary: one dictionary, recomputable from plan.jsonl and episodes.jsonl alone.

Three denominators, always: *strict* counts every planned episode, errors as failures (the headline); *scored* counts
only what was scored; *coverage* is the one over the other.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agentbench.core.records import Planned, scored_rows
from agentbench.metrics.stats import Estimate, mean_interval, success_interval

Row = Mapping[str, Any]

REACHED: Final = {"completion_rate": "submitted", "modification_rate": "modified", "resolution_rate": "resolved"}
"""The metrics of G-RA (arXiv 2508.10548): how far episodes came, by the reward term that says so."""


def summarise(plan: Sequence[Planned], rows: Sequence[Row]) -> dict[str, Any]:
    """Summarise a run, finished or not.

    Args:
        plan: Every planned episode.
        rows: One row per attempt; the first scored row of a key counts.

    Returns:
        `success`, `low`, `high` (strict; None where the environment knows no success), `n` (tasks), `coverage`, and
        the means of reward, turns, tokens, validity and time over scored episodes. The rates of `REACHED` are strict,
        and None where the environment has no such term.
    """
    keys = {planned.key for planned in plan}
    scored = scored_rows(row for row in rows if row["key"] in keys)
    counted = [row for row in scored.values() if row["success"] is not None]
    success = _success(plan, scored) if counted or not scored else None
    rewards = _over_tasks(plan, scored, "reward")
    return {
        "success": success and success.mean,
        "low": success and success.low,
        "high": success and success.high,
        "method": success and success.method,
        "n": len({planned.task for planned in plan}),
        "planned": len(plan),
        "scored": len(scored),
        "coverage": len(scored) / len(plan) if plan else 0.0,
        "success_scored": _mean(float(row["success"]) for row in counted),
        "reward": rewards and rewards.mean,
        "reward_low": rewards and _finite(rewards.low),
        "reward_high": rewards and _finite(rewards.high),
        **dict.fromkeys(REACHED),
        **reached([row.get("terms") or {} for row in scored.values()], among=len(plan)),
        **_means(list(scored.values())),
        "ends": dict(Counter(str(row["end"]) for row in scored.values())),
        "failures": dict(Counter(str(row["failure"]["cause"]) for row in rows if row["failure"])),
    }


def reached(terms: Sequence[Mapping[str, float]], *, among: int) -> dict[str, float]:
    """Return the shares of episodes that came so far, for the terms that the environment has.

    Args:
        terms: Of each episode, the sum of every raw term.
        among: All episodes that count; those without terms came nowhere.
    """
    return {
        rate: sum(each.get(term, 0.0) > 0 for each in terms) / among
        for rate, term in REACHED.items()
        if any(term in each for each in terms)
    }


def _success(plan: Sequence[Planned], scored: Mapping[str, Row]) -> Estimate | None:
    by_task: dict[str, list[float]] = defaultdict(list)
    for planned in plan:
        row = scored.get(planned.key)
        by_task[planned.task].append(float(bool(row and row["success"])))
    if not by_task:
        return None
    means = [math.fsum(outcomes) / len(outcomes) for outcomes in by_task.values()]
    return success_interval(means, trials=max(len(outcomes) for outcomes in by_task.values()))


def _over_tasks(plan: Sequence[Planned], scored: Mapping[str, Row], field: str) -> Estimate | None:
    by_task: dict[str, list[float]] = defaultdict(list)
    for planned in plan:
        if planned.key in scored:
            by_task[planned.task].append(float(scored[planned.key][field]))
    if not by_task:
        return None
    return mean_interval([math.fsum(values) / len(values) for values in by_task.values()])


def _means(rows: Sequence[Row]) -> dict[str, float | None]:
    turns = sum(row["turns"] for row in rows)
    return {
        "turns": _mean(row["turns"] for row in rows),
        "invalid_rate": sum(row["invalid"] for row in rows) / turns if turns else None,
        "tokens": _mean(row["tokens"] for row in rows),
        "prompt_tokens": _mean(row["prompt_tokens"] for row in rows),
        "env_seconds": sum(row["env_seconds"] for row in rows),
        "policy_seconds": sum(row["policy_seconds"] for row in rows),
    }


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
