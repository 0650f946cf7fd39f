"""Sizes for a comparison: the model of the noise against enumeration and simulation, and what a baseline allows."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from agentbench.core.errors import RunInvalid, UsageError
from agentbench.core.seeding import generator
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.power import TASKS, Plan, Question, noise_of, plan
from agentbench.metrics.stats import Components, components, paired
from tests.evaluate.simulated import draw, write_run


def baseline(tmp_path: Path, outcomes: list[list[bool]]) -> Evidence:
    return Evidence.load(write_run(tmp_path, outcomes))


@pytest.fixture
def measured(tmp_path: Path) -> Evidence:
    return baseline(tmp_path, draw(0, 80, 4)[0])


@pytest.mark.parametrize("delta", [0.1, 0.3, 0.45])
@pytest.mark.parametrize("trials", [1, 3])
def test_the_noise_is_the_variance_of_what_is_simulated(delta: float, trials: int) -> None:
    # Rates of tasks and how the loss is spread are known here; the formula sees only their mean and their variance.
    rates = np.array([0.0, 0.2, 0.5, 0.9, 1.0, 0.4])
    p, n = rates.mean(), 200_000
    rng = generator("noise", trials, delta)
    tasks = rng.choice(rates, size=n)
    variance = Components(float(rates.var()), 0.1, float(p), n, trials)
    noise = noise_of(variance, Question(delta), trials)
    before = rng.binomial(trials, tasks) / trials
    spread = rng.binomial(trials, tasks * (1 - delta / p)) / trials - before
    whole = rng.binomial(trials, np.where(rng.random(n) < delta / p, 0.0, tasks)) / trials - before
    same = rng.binomial(trials, tasks) / trials - before
    assert spread.mean() == pytest.approx(-delta, abs=0.01)
    assert whole.mean() == pytest.approx(-delta, abs=0.01)
    assert noise == pytest.approx((spread.std(), whole.std(), same.std()), rel=0.02)


def test_a_gain_is_a_loss_of_failures() -> None:
    low, high = (Components(0.02, 0.03, mean, 50, 4) for mean in (0.05, 0.95))
    assert noise_of(low, Question(0.2), 2) == pytest.approx(noise_of(high, Question(0.2), 2))


def test_the_planned_size_sees_the_difference_as_often_as_asked(measured: Evidence) -> None:
    answer = plan(measured, Question(delta=0.15))
    size = next(size for size in answer.sizes if size.trials == 4)
    # The world that the baseline was drawn from: Beta(1/2, 1/2), each task keeping 1 - 2 * .15 of its rate.
    seen = 0
    for repetition in range(200):
        a, b = draw(10_000 + repetition, size.tasks, 4, drop=0.15)
        seen += paired(np.mean(a, axis=1), np.mean(b, axis=1)).p_value <= 0.05
    assert 0.7 < seen / 200 < 0.92, "80 % with the binomial error of 200 repetitions and of the baseline's variance"


def test_more_trials_need_fewer_tasks_and_more_episodes(measured: Evidence) -> None:
    sizes = plan(measured, Question()).sizes
    assert [size.trials for size in sizes] == [1, 2, 4, 8]
    assert all(more.tasks <= less.tasks for less, more in pairwise(sizes))
    assert all(more.tasks_ok < less.tasks_ok for less, more in pairwise(sizes))
    assert all(more.episodes > less.episodes for less, more in pairwise(sizes))
    assert all(size.tasks <= size.tasks_whole for size in sizes), "a loss in few tasks is the harder one to see"


def test_chances_grow_with_the_panel_and_reach_the_power_at_the_planned_size(measured: Evidence) -> None:
    answer = plan(measured, Question())
    for size in answer.sizes:
        chances = [chance for chance in answer.chances if chance.trials == size.trials]
        assert [chance.tasks for chance in chances] == list(TASKS)
        spread = [chance.spread for chance in chances]
        assert spread == sorted(spread)
        assert all((chance.spread >= 0.8) == (chance.tasks >= size.tasks) for chance in chances)
        assert all((chance.whole >= 0.8) == (chance.tasks >= size.tasks_whole) for chance in chances)


def test_costs_are_those_of_the_run(measured: Evidence) -> None:
    # A simulated episode takes two turns of 11 ms and of 3 tokens each.
    for size in plan(measured, Question()).sizes:
        assert size.episodes == size.tasks_whole * size.trials
        assert size.seconds == pytest.approx(0.022 * size.episodes)
        assert size.tokens == 6 * size.episodes
        assert size.prompt_tokens == 0


def test_the_baseline_owes_what_it_has_not_played(tmp_path: Path) -> None:
    few = baseline(tmp_path, draw(0, 10, 2)[0])
    for size in plan(few, Question()).sizes:
        assert size.baseline_episodes == size.episodes - 10 * min(2, size.trials)
    many = baseline(tmp_path, draw(1, 2000, 1)[0])
    assert plan(many, Question()).sizes[0].baseline_episodes == 0


def test_without_a_second_trial_luck_is_unknown_and_all_variance_counts_as_luck(tmp_path: Path) -> None:
    outcomes = [[True], [False]] * 20
    answer = plan(baseline(tmp_path, outcomes), Question())
    assert answer.variance.within is None
    assert [size.trials for size in answer.sizes] == [1]
    careful = noise_of(answer.variance, Question(), 1)
    known = noise_of(Components(0.2, 0.05, 0.5, 40, 4), Question(), 1)
    assert all(a > b for a, b in zip(careful, known, strict=True))


def test_a_perfect_baseline_still_needs_enough_tasks_to_meet_a_lost_one(tmp_path: Path) -> None:
    answer = plan(baseline(tmp_path, [[True, True]] * 20), Question(delta=0.1, margin=0.05))
    assert all(size.tasks_ok == math.ceil(math.log(0.05) / math.log(0.95)) for size in answer.sizes)
    assert all(size.tasks_whole >= 50 for size in answer.sizes)


def test_a_hopeless_baseline_is_planned_for_a_gain(tmp_path: Path) -> None:
    answer = plan(baseline(tmp_path, [[False, False]] * 20), Question(delta=0.1))
    perfect = plan(baseline(tmp_path, [[True, True]] * 20), Question(delta=0.1))
    assert answer.gain
    assert not perfect.gain
    assert answer.sizes == perfect.sizes


def test_other_metrics_are_planned_in_their_own_unit(tmp_path: Path) -> None:
    rewards = baseline(tmp_path, draw(3, 40, 3)[0])
    # The reward of a simulated episode is 1 or 0, as its success: the same luck, and no idea where a change may sit.
    answer = plan(rewards, Question(metric="reward"))
    variance = components(list(rewards.outcomes().values()))
    assert answer.variance == variance
    assert variance.within is not None
    assert noise_of(variance, Question(metric="reward"), 4).none == pytest.approx(math.sqrt(2 * variance.within / 4))
    assert all(size.tasks == size.tasks_whole for size in answer.sizes)
    assert not plan(rewards, Question(delta=5.0, metric="reward")).gain


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"delta": 0.0}, "--delta is a positive"),
        ({"delta": math.nan}, "--delta is a positive"),
        ({"margin": -0.1}, "--margin is a positive"),
        ({"power": 1.0}, "--power is a chance"),
        ({"level": 0.0}, "--level is a chance"),
    ],
)
def test_questions_without_an_answer_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Question(**wrong)  # type: ignore[arg-type]


def test_baselines_without_an_answer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 2"):
        plan(baseline(tmp_path, [[True, False]]), Question())
    with pytest.raises(UsageError, match="neither fall nor rise"):
        plan(baseline(tmp_path, [[True], [False]]), Question(delta=0.6))
    with pytest.raises(RunInvalid):
        Evidence.load(write_run(tmp_path, [[None], [None]]))


def test_the_fewest_episodes_are_named(measured: Evidence) -> None:
    answer: Plan = plan(measured, Question())
    assert answer.fewest.episodes == min(size.episodes for size in answer.sizes)
