"""Curves show the recorded numbers, with the bands that those numbers bear out."""

from pathlib import Path

import pytest

from agentbench.metrics.stats import mean_interval, wilson
from agentbench.report.curves import (
    _lines,
    _valid,
    _with_error,
    draw_run,
    entropy_curves,
    group_runs,
    health_curves,
    outcome_curves,
)
from agentbench.report.figures import Drawing
from agentbench.report.runs import Training, read_runs
from tests.report.written import write_training


def trained(parent: Path, seeds: int = 1, **more: float) -> list[Training]:
    paths = [write_training(parent, seed, **more) for seed in range(seeds)]  # type: ignore[arg-type]
    return [run for run in read_runs(paths) if isinstance(run, Training)]


def names(drawings: list[Drawing]) -> list[str]:
    return [drawing.name for drawing in drawings]


def test_a_single_run_has_the_band_of_its_own_error(tmp_path: Path) -> None:
    (group,) = group_runs(trained(tmp_path))
    (line,) = _with_error(group, "episode/reward")
    assert line.x == [2, 3, 4, 5, 6], "in the warm start the oracle plays"
    assert line.y == pytest.approx([x / 6 for x in line.x])
    assert line.low is not None and line.high is not None
    assert [high - low for low, high in zip(line.low, line.high, strict=True)] == pytest.approx([0.392] * 5)


def test_what_has_no_error_has_no_band(tmp_path: Path) -> None:
    (group,) = group_runs(trained(tmp_path))
    for row in group.runs[0].rows:
        del row["episode/reward_error"]
    (line,) = _with_error(group, "episode/reward")
    assert line.low is None and line.y == pytest.approx([x / 6 for x in line.x])


def test_a_success_rate_stays_within_its_range(tmp_path: Path) -> None:
    (group,) = group_runs(trained(tmp_path, better=0.5))
    (line,) = _with_error(group, "episode/success")
    assert line.high is not None and max(line.high) == 1.0


def test_the_valid_panel_has_wilson_intervals(tmp_path: Path) -> None:
    (group,) = group_runs(trained(tmp_path))
    (line,) = _valid(group)
    bands = [wilson(round(8 * x / 6), 8) for x in (2, 4, 6)]
    assert (line.x, line.low, line.high) == ([2, 4, 6], [b.low for b in bands], [b.high for b in bands])


def test_seeds_of_one_recipe_are_one_curve_with_a_band_over_them(tmp_path: Path) -> None:
    runs = trained(tmp_path, seeds=3)
    (group,) = group_runs(runs)
    *each, mean = _lines(group, "episode/reward")
    assert len(each) == 3 and all(line.faint and not line.label for line in each)
    assert mean.label == "turn-ppo, 3 seeds"
    band = mean_interval([0.5 + 0.01 * seed for seed in range(3)])
    at = list(mean.x).index(3)
    assert mean.low is not None
    assert (mean.y[at], mean.low[at]) == pytest.approx((band.mean, band.low))


def test_two_seeds_have_no_band(tmp_path: Path) -> None:
    (group,) = group_runs(trained(tmp_path, seeds=2))
    *_, mean = _lines(group, "episode/reward")
    assert mean.low is None and mean.label


def test_other_recipes_are_other_curves(tmp_path: Path) -> None:
    groups = group_runs([*trained(tmp_path, seeds=2), *trained(tmp_path, better=0.25)])
    assert [len(group.runs) for group in groups] == [2, 1]
    assert names(outcome_curves(groups)) == ["reward", "success", "valid"]
    assert names(entropy_curves(groups)) == ["entropy", "entropy-turn", "entropy-token"]


def test_one_run_shows_all_that_was_logged_and_nothing_that_was_not(tmp_path: Path) -> None:
    groups = group_runs(trained(tmp_path))
    assert names(entropy_curves(groups)) == ["entropy", "entropy-turn", "entropy-token", "entropy-heat"]
    drawn = names(health_curves(groups))
    for wanted in ("episode-turns", "episode-tokens", "episode-invalid", "policy-kl_reference", "policy-clip_fraction",
                   "value-explained_variance", "policy-grad_norm", "policy-staleness", "time-seconds"):  # fmt: skip
        assert wanted in drawn
    assert "group-without_signal" not in drawn


def test_the_main_curves_are_files_of_the_run(tmp_path: Path) -> None:
    path = write_training(tmp_path)
    files = draw_run(path)
    assert {file.name for file in files} >= {"reward.png", "reward.svg", "entropy.png", "entropy.svg"}
    assert all(file.stat().st_size > 1000 and file.parent == path.resolve() / "report" for file in files)
