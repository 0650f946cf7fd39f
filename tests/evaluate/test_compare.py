"""Who is better, how sure that is, and how often that is wrong."""

from pathlib import Path

import pytest
from scipy.stats import binom

from agentbench.core.errors import UsageError
from agentbench.evaluate.compare import Comparison, Side, compare
from agentbench.evaluate.evidence import Evidence, Metric
from agentbench.metrics.stats import paired
from tests.evaluate.simulated import draw, in_memory, write_run

LEVEL = 0.05


def wins(count: int, tasks: int = 60, trials: int = 1) -> list[list[bool]]:
    return [[task < count] * trials for task in range(tasks)]


def sides(**outcomes: list[list[bool]]) -> list[Side]:
    return [Side(name, (in_memory(found, policy=name),)) for name, found in outcomes.items()]


def test_two_runs_are_paired_by_task() -> None:
    a, b = draw(0, 40, 3)
    pair = compare(sides(a=a, b=b)).pairs[0]
    expected = paired([sum(task) / 3 for task in a], [sum(task) / 3 for task in b])
    assert (pair.delta, pair.low, pair.high, pair.p_value, pair.mde) == pytest.approx(expected[:5])
    assert (pair.unit, pair.n) == ("task", 40)
    positions = [int(flip.seed) for flip in pair.flips]
    assert positions == list(expected.flips)


def test_the_second_is_held_against_the_first() -> None:
    better = compare(sides(a=wins(20), b=wins(40)))
    assert better.pairs[0].verdict(LEVEL) == "better"
    assert compare(sides(b=wins(40), a=wins(20))).pairs[0].verdict(LEVEL) == "worse"
    assert better.pairs[0].improvement == pytest.approx(0.5 + 0.5 * 20 / 60)
    assert better.pairs[0].p_mcnemar == pytest.approx(2.0**-19)


def test_fewer_turns_are_better_and_less_reward_is_worse() -> None:
    a, b = (in_memory(wins(30), policy=name) for name in "ab")
    for row in b.rows.values():
        row["turns"] += 1
        row["reward"] += 1
    both = [Side("a", (a,)), Side("b", (b,))]
    found: dict[Metric, Comparison] = {"turns": compare(both, metric="turns"), "reward": compare(both, metric="reward")}
    words = {metric: comparison.pairs[0].verdict(LEVEL) for metric, comparison in found.items()}
    assert words == {"turns": "worse", "reward": "better"}
    assert [rank.side.name for rank in found["turns"].ranking] == ["a", "b"]
    assert found["turns"].pairs[0].improvement == 0


def test_ranks_are_shared_where_chance_may_have_ordered() -> None:
    comparison = compare(sides(low=wins(10), high=wins(50), near=wins(49)))
    found = {rank.side.name: (rank.best, rank.worst) for rank in comparison.ranking}
    assert found == {"high": (1, 2), "near": (1, 2), "low": (3, 3)}
    assert [rank.side.name for rank in comparison.ranking] == ["high", "near", "low"]


def test_holm_is_over_all_pairs() -> None:
    after = wins(24)  # six losses: p = 1/32
    alone = compare(sides(a=wins(30), b=after)).pairs[0]
    among = compare(sides(a=wins(30), b=after, c=wins(30))).against_first()[0]
    assert alone.p_value == pytest.approx(1 / 32)
    assert among.p_value == pytest.approx(3 / 32)


def test_what_measured_something_else_is_left_out_with_its_fields() -> None:
    comparison = compare(sides(a=wins(30), b=wins(30), c=wins(30, 61)))
    assert [side.name for side in comparison.sides] == ["a", "b"]
    assert {d.field for d in comparison.refused["c"]} == {"panel", "tasks"}


def test_training_runs_are_the_unit_where_both_sides_have_several() -> None:
    first = tuple(in_memory(wins(count), policy="a") for count in (10, 12, 14, 11))
    second = tuple(in_memory(wins(count), policy="b") for count in (30, 33, 35, 31))
    pair = compare([Side("a", first), Side("b", second)]).pairs[0]
    assert (pair.unit, pair.n) == ("training run", 4)
    assert pair.delta == pytest.approx((32.25 - 11.75) / 60)
    assert pair.p_value == pytest.approx(2 / 70)
    mixed = compare([Side("a", first), Side("b", second[:1])]).pairs[0]
    assert (mixed.unit, mixed.n) == ("task", 60)


def test_a_side_alone_is_no_comparison() -> None:
    with pytest.raises(UsageError, match="two runs"):
        compare(sides(a=wins(3)))


def significant(comparison: Comparison) -> bool:
    return comparison.pairs[0].verdict(LEVEL) != "no difference"


@pytest.mark.parametrize(("tasks", "trials", "power"), [(100, 1, 0.27), (100, 4, 0.65)])
def test_chance_alone_is_rarely_a_difference_and_ten_points_are_found(
    tasks: int, trials: int, power: float, scale: float
) -> None:
    repetitions = int(100 * max(1.0, scale / 5))  # 400 in the full size
    found = {}
    for drop in (0.0, 0.1):
        pairs = (draw(name, tasks, trials, drop=drop) for name in range(repetitions))
        found[drop] = sum(significant(compare(sides(a=a, b=b))) for a, b in pairs)
    assert found[0.0] <= binom.ppf(0.999, repetitions, LEVEL)
    assert found[0.1] >= binom.ppf(0.001, repetitions, power)


@pytest.mark.slow
def test_so_it_is_through_run_directories(tmp_path: Path, scale: float) -> None:
    repetitions, false, found = int(20 * max(1.0, scale)), 0, 0
    for name in range(repetitions):
        for drop in (0.0, 0.4):
            outcomes = draw(name, 30, 2, drop=drop)
            runs = [Evidence.load(write_run(tmp_path, outcomes[k], policy=p)) for k, p in enumerate("ab")]
            different = significant(compare([Side(run.name, (run,)) for run in runs]))
            false, found = false + (different and not drop), found + (different and bool(drop))
    assert false <= binom.ppf(0.999, repetitions, LEVEL)
    assert found >= repetitions * 0.8
