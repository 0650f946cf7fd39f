"""What a recipe says of stages and rewards is what happens: how rates fall, when a stage ends, and what is paid."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agentbench.core.rewards import weigh
from agentbench.train.algorithms import SFT
from agentbench.train.checkpoint import Counters
from agentbench.train.config import Budget, Optim, TrainConfig
from agentbench.train.loop import train
from agentbench.train.stages import Stage
from tests.train.rollouts import trajectory


@pytest.mark.parametrize(
    ("optim", "budget", "rates"),
    [
        (Optim(warmup=0), Budget(updates=4), [1, 1, 1, 1]),
        (Optim(warmup=3), Budget(updates=4), [0.25, 0.5, 0.75, 1]),
        (Optim(warmup=0, final=0.0), Budget(updates=4), [1, 0.75, 0.5, 0.25]),
        (Optim(warmup=1, final=0.2), Budget(updates=8), [0.5, 0.9, 0.8, 0.7]),
        (Optim(warmup=0, final=0.0), Budget(updates=8, episodes=40), [1, 0.75, 0.5, 0.25]),
        (Optim(warmup=0, final=0.0), Budget(tokens=200), [1, 0.5, 0, 0]),
    ],
)
def test_rates_rise_over_the_warm_up_and_fall_over_the_budget(optim: Optim, budget: Budget, rates: list[float]) -> None:
    stage = Stage("main", SFT(), optim, 10, budget)
    start = {"total_updates": 7.0, "episodes": 70.0, "tokens": 700.0}  # what stages before it spent
    counters = [
        Counters(update=n, total_updates=7 + n, episodes=70 + 10 * n, tokens=700 + 100 * n, stage_start=start)
        for n in range(4)
    ]
    assert [stage.rate(each) for each in counters] == pytest.approx(rates)
    assert [stage.is_over(each) for each in counters] == [budget.tokens is not None and n >= 2 for n in range(4)]


def test_a_stage_ends_early_at_the_success_that_it_was_asked_for(
    fake: Callable[[str], str], recipe: Callable[..., TrainConfig]
) -> None:
    rows: list[dict[str, Any]] = []
    config = recipe(
        env=f"{fake('BANDIT')}/sure",
        rollout={"episodes": 8, "max_tokens": 4},
        warm_start={"updates": 60, "episodes": 16, "lr": 3e-3, "minibatches": 1, "until_success": 0.5},
        validation={"every": 2, "episodes": 4},
        budget={"updates": 1},
    )
    train(config, listen=rows.append)
    successes = [row["valid/success"] for row in rows if row["stage"] == "warm-start" and "valid/success" in row]
    assert len(successes) < 30
    assert successes[-1] >= 0.5 > max(successes[:-1], default=0.0)
    assert rows[-1]["stage"] == "turn-ppo"


@pytest.mark.parametrize(
    ("reward", "paid"),
    [
        ("native", [-0.1, 0.9, 9.9]),
        ("sparse", [0.0, 0.0, 1.0]),
        ("dense", [-0.1 + 0.5 * 3 - 2, 0.9 + 0.5 * 5 - 3, 9.9 - 5]),
        ({"terms": {"onto": 2.0, "success": 1.0}}, [0.0, 2.0, 1.0]),
    ],
    ids=["native", "sparse", "dense", "terms"],
)
def test_the_reward_that_is_configured_is_paid(
    reward: Any, paid: list[float], recipe: Callable[..., TrainConfig]
) -> None:
    episode = trajectory(np.random.default_rng(0), 3)
    terms = [{"steps": 1.0}, {"steps": 1.0, "onto": 1.0}, {"steps": 1.0, "finished": 1.0}]
    episode.turns = [
        replace(turn, terms=raw, potential=potential)
        for turn, raw, potential in zip(episode.turns, terms, (2.0, 3.0, 5.0), strict=True)
    ]
    config = recipe(env="sokoban/tiny", reward=reward)
    spec = config.reward_spec(config.resolve_env())
    assert weigh(episode, spec, 0.5) == pytest.approx(paid)
    episode.success = False
    assert weigh(episode, spec, 0.5)[-1] == pytest.approx(paid[-1] - (reward == "sparse" or "success" in str(reward)))
