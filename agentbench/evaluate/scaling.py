"""What more turns, more tokens and more attempts would buy: one policy, one run, growing budgets.

The environment and the policy do not know the cap that the harness puts on an episode. A success that took t turns is
therefore a success under every cap of at least t turns, and a failure under smaller ones. So the table follows from
one run with the largest budgets, without playing again; `tests/evaluate/test_scaling.py` holds it to runs that really
were capped. An environment that tells its agent how many turns are left is the exception.

Tokens are counted the same way, and there the table is a lower bound: a reply that a limit cuts short may still hold
the action that wins.

Best of n is pass@n: the chance that at least one of n attempts at a task succeeds, by the unbiased estimator
1 - C(m - c, n) / C(m, n) for c successes among m attempts (Chen et al. 2021, arXiv 2107.03374).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentbench.core.records import Planned, scored_rows
from agentbench.metrics.stats import pass_at_k, success_interval

Row = Mapping[str, Any]


class Point(NamedTuple):
    """Success under one budget."""

    budget: str
    """`turns`, `tokens` or `best of`."""
    size: int
    mean: float
    low: float
    high: float
    n: int
    """Tasks."""


def scale(plan: Sequence[Planned], rows: Sequence[Row]) -> list[Point]:
    """Compute success under growing budgets from the rows of one run.

    Args:
        plan: Every planned episode; what was not scored counts as a failure under every budget.
        rows: The rows of the run.

    Returns:
        Points by turns, by tokens (for policies that count them) and by attempts, sizes doubling up to the largest.
    """
    scored = scored_rows(rows)
    points = []
    for budget in ("turns", "tokens"):
        largest = max((int(row[budget]) for row in scored.values()), default=0)
        for size in _doubling(largest):
            outcomes = _outcomes(plan, scored, budget, size)
            points.append(_point(budget, size, [sum(won) / len(won) for won in outcomes], outcomes))
    outcomes = _outcomes(plan, scored, "turns", math.inf)
    best = [
        _point("best of", size, [pass_at_k(len(won), sum(won), size) for won in outcomes], outcomes)
        for size in _doubling(min(map(len, outcomes), default=0))
    ]
    return [*points, *best]


def _outcomes(plan: Sequence[Planned], scored: Mapping[str, Row], budget: str, size: float) -> list[list[bool]]:
    """For each task, whether each of its attempts succeeded within the budget."""
    by_task: dict[str, list[bool]] = defaultdict(list)
    for planned in plan:
        row = scored.get(planned.key)
        by_task[planned.task].append(bool(row and row["success"] and row[budget] <= size))
    return list(by_task.values())


def _point(budget: str, size: int, means: Sequence[float], outcomes: Sequence[Sequence[bool]]) -> Point:
    interval = success_interval(means, trials=max(map(len, outcomes)))
    return Point(budget, size, interval.mean, interval.low, interval.high, interval.n)


def _doubling(largest: int) -> Iterator[int]:
    size = 1
    while size < largest:
        yield size
        size *= 2
    if largest:
        yield largest
