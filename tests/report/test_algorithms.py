"""Several algorithms over several training seeds."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import RunInvalid, UsageError
from agentbench.core.records import RunDirectory, write_json
from agentbench.report.algorithms import (
    algorithm_chapters,
    compare_algorithms,
    doubts,
    group_algorithms,
    ranking,
    require_same,
    summaries_table,
)
from agentbench.report.runs import Training, read_runs
from agentbench.report.tables import as_cell
from tests.cli.command import agentbench, assert_one_clear_line
from tests.evaluate.simulated import write_run


def write_training(
    parent: Path, algorithm: str, seed: int, success: list[float], status: str = "complete", **config: Any
) -> Path:
    """Write what is read of a training run: its recipe, and success on the valid panel by update."""
    run = RunDirectory.create(parent, "echo/3@0", algorithm)
    recipe = {"env": "echo", "algorithm": {"name": algorithm}, "seed": seed, "out": str(parent), **config}
    write_json(run.path / "run.json", {"kind": "train", "status": status, "config": recipe})
    write_json(run.path / "lock.json", {"env": "echo/3@0"})
    rows = [
        {"stage": algorithm, "update": k, "valid/success": value, "episode/reward": value, "episode/success": value,
         "policy/entropy": 1 - value}
        for k, value in enumerate(success, start=1)
    ]  # fmt: skip
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run.path


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Eight seeds of each of three algorithms; the last update counts, not the best."""
    finals = {"ppo": 0.8, "grpo": 0.5, "rloo": 0.49}
    return [
        write_training(tmp_path, name, seed, [0.2, 0.95, final + 0.01 * (seed % 4)])
        for name, final in finals.items()
        for seed in range(8)
    ]


def training(paths: list[Path]) -> list[tuple[str | None, Training]]:
    return [(None, run) for run in read_runs(paths) if isinstance(run, Training)]


def test_algorithms_are_ranked_by_their_last_update(runs: list[Path]) -> None:
    algorithms = group_algorithms(training(runs))
    assert [(one.name, len(one.runs)) for one in algorithms] == [("ppo", 8), ("grpo", 8), ("rloo", 8)]
    pairs = {(pair.a.name, pair.b.name): pair for pair in compare_algorithms(algorithms, 0.05)}
    assert pairs["ppo", "grpo"].result.delta == pytest.approx(-0.3)
    assert pairs["ppo", "grpo"].p_value == pytest.approx(3 * 2 / 12870)
    apart = pairs["ppo", "grpo"].improvement
    assert apart.estimate.high == 0 and apart.coverage is None, "runs that never overlap have nothing to simulate"
    beside = pairs["grpo", "rloo"].improvement
    assert beside.estimate.low < beside.estimate.mean < beside.estimate.high
    assert beside.coverage is not None and 0.5 < beside.coverage <= 1
    assert {key: pair.verdict(0.05) for key, pair in pairs.items()} == {
        ("ppo", "grpo"): "worse", ("ppo", "rloo"): "worse", ("grpo", "rloo"): "no difference",
    }  # fmt: skip
    table = ranking(algorithms, list(pairs.values()), 0.05)
    assert [(as_cell(row[0]).text, as_cell(row[1]).text) for row in table.rows] == [
        ("1", "ppo"), ("2–3", "grpo"), ("2–3", "rloo"),
    ]  # fmt: skip
    assert list(doubts(algorithms)) == []
    told = [[as_cell(value).text for value in row] for row in summaries_table(algorithms).rows]
    assert [row[0] for row in told] == ["ppo"] * 3 + ["grpo"] * 3 + ["rloo"] * 3
    assert [row[1] for row in told[:3]] == ["median", "interquartile mean", "optimality gap"]
    assert told[1][2].startswith("81.5 % [80.") and told[2][2].startswith("18.5 % [")
    assert all(row[3].endswith(" %") for row in told)
    titles = [chapter.title for chapter in algorithm_chapters(algorithms, list(pairs.values()), 0.05)]
    assert titles == ["Answer", "Ranking", "Curves", "Runs"]


def test_names_group_what_shares_an_algorithm(tmp_path: Path) -> None:
    paths = [write_training(tmp_path, "ppo", seed, [0.1]) for seed in range(4)]
    found = training(paths)
    with pytest.raises(UsageError, match="name what differs"):
        compare_algorithms(group_algorithms(found), 0.05)
    named = group_algorithms(
        [(name, run) for name, (_, run) in zip(("with", "with", "without", "without"), found, strict=True)]
    )
    assert [(one.name, len(one.runs)) for one in named] == [("with", 2), ("without", 2)]


def test_doubts_are_told(tmp_path: Path) -> None:
    paths = [
        write_training(tmp_path, "ppo", 0, [0.1], optim={"lr": 1}),
        write_training(tmp_path, "ppo", 1, [0.1], optim={"lr": 2}),
        write_training(tmp_path, "grpo", 0, [0.1], status="cancelled"),
        write_training(tmp_path, "grpo", 1, [0.1]),
    ]
    told = " ".join(doubts(group_algorithms(training(paths))))
    assert next(doubts(group_algorithms(training(paths[1:3])))).startswith("With 1 training run of")
    assert "smaller than 0.33" in told and "differ in more than their seed: optim.lr" in told and "not complete" in told


def test_runs_of_other_environments_are_refused_by_key(tmp_path: Path) -> None:
    paths = [
        write_training(tmp_path, "ppo", 0, [0.1], rollout={"max_turns": 5}),
        write_training(tmp_path, "grpo", 0, [0.1], rollout={"max_turns": 6}),
    ]
    with pytest.raises(UsageError, match=r"rollout\.max_turns \(5, 6\)"):
        require_same(group_algorithms(training(paths)))


def test_a_run_without_validation_is_refused(tmp_path: Path) -> None:
    path = write_training(tmp_path, "ppo", 0, [0.1])
    (path / "metrics.jsonl").write_text('{"stage": "ppo", "update": 1}\n')
    with pytest.raises(RunInvalid, match="valid panel"):
        group_algorithms(training([path]))


def test_the_command_compares_training_runs(tmp_path: Path, runs: list[Path]) -> None:
    done = agentbench("compare", *runs[:16], "--json", "-o", tmp_path / "page.html", cwd=tmp_path)
    assert done.code == 0, done
    assert done.events[-1]["verdict"] == "worse" and done.events[-1]["unit"] == "training run"
    last, page = done.events[-1], (tmp_path / "page.html").read_text()
    assert set(last["improvement"]) == set(last["summaries"]["a"]["median"]) == {"mean", "low", "high", "coverage"}
    assert "<svg" in page and "interquartile mean" in page
    assert "simulated coverage" in page and "simulated coverage" in done.err
    other = write_training(tmp_path, "sft", 0, [0.1], env_args={"length": 5})
    refused = agentbench("compare", *runs[:8], other, "--json", cwd=tmp_path)
    assert refused.code == 2 and refused.events[-1]["verdict"] == "not comparable"
    assert_one_clear_line(refused, 2, "env_args.length")
    mixed = agentbench("compare", runs[0], write_run(tmp_path, [[True]]), "--json", cwd=tmp_path)
    assert mixed.events[-1]["verdict"] == "not comparable" and set(mixed.events[-1]) >= {"delta", "mde", "b"}
    assert_one_clear_line(mixed, 2, "evaluations and training runs")
