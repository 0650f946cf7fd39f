"""Every algorithm learns what can be learned in a few updates, on a CPU, with fixed seeds.

A model that was taught to say `left` and `right` equally often must come to say what pays; one that half knows how to
repeat a word must come to repeat it more often. The margins: the last three updates of the bandit above 0.9, the last
five of the echo at least 0.15 above the first two.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.train.config import TrainConfig
from agentbench.train.loop import train

Recipe = Callable[..., TrainConfig]
ALGORITHMS = ("turn-ppo", "token-ppo", "grpo", "rloo")


def successes(config: TrainConfig) -> list[float]:
    """Train; return the success rate of what was sampled at each update."""
    rows: list[dict[str, Any]] = []
    train(config, listen=rows.append)
    return [row["episode/success"] for row in rows]


def taught(folder: Path, entry: str, variant: str, *, updates: int, rollout: dict[str, int], lr: float) -> Path:
    """Teach a new model by demonstrations; return its checkpoint."""
    env = folder / f"{entry.lower()}_env.py"
    env.write_text(f"from agentbench.testing import {entry} as ENTRY\n")
    config = TrainConfig.parse(
        {
            "model": "init:xs",
            "env": f"{env}/{variant}",
            "algorithm": {"name": "sft"},
            "budget": {"updates": updates},
            "rollout": rollout,
            "optim": {"lr": lr, "warmup": 0},
            "validation": {"every": 0, "episodes": 4},
            "out": str(folder),
        }
    )
    return train(config).run_dir / "checkpoints" / "last"


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says left or right, whatever it is asked."""
    folder = tmp_path_factory.mktemp("speaker")
    return taught(folder, "BANDIT", "fair", updates=10, rollout={"episodes": 32, "max_tokens": 4}, lr=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_bandit_is_learned_in_ten_updates(
    name: str, speaker: Path, fake: Callable[[str], str], recipe: Recipe
) -> None:
    config = recipe(
        model=str(speaker),
        env=f"{fake('BANDIT')}/sure",
        algorithm={"name": name},
        budget={"updates": 10},
        rollout={"episodes": 32, "max_tokens": 4},
    )
    curve = successes(config)
    assert curve[0] < 0.9, f"there was nothing to learn: {curve}"
    assert sum(curve[-3:]) / 3 > 0.9, curve


@pytest.fixture(scope="module")
def parrot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that repeats one word in three."""
    folder = tmp_path_factory.mktemp("parrot")
    return taught(folder, "ECHO", "1", updates=8, rollout={"episodes": 64, "max_tokens": 8}, lr=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_echo_is_learned_in_a_few_dozen_updates(
    name: str, parrot: Path, fake: Callable[[str], str], recipe: Recipe
) -> None:
    group = {"group_size": 4} if name in ("grpo", "rloo") else {}
    config = recipe(
        model=str(parrot),
        env=f"{fake('ECHO')}/1",
        algorithm={"name": name, **group},
        budget={"updates": 45 if name == "grpo" else 30},
        rollout={"episodes": 64, "max_tokens": 8},
        optim={"lr": 3e-4, "critic_lr": 1e-3, "warmup": 2},
    )
    curve = successes(config)
    assert sum(curve[-5:]) / 5 > sum(curve[:2]) / 2 + 0.15, curve


@pytest.mark.slow
def test_supervised_training_teaches_the_echo(fake: Callable[[str], str], recipe: Recipe) -> None:
    config = recipe(
        env=f"{fake('ECHO')}/1",
        algorithm={"name": "sft"},
        budget={"updates": 60},
        rollout={"episodes": 64, "max_tokens": 8},
        optim={"lr": 2e-3, "warmup": 0},
        validation={"every": 0, "episodes": 40},
    )
    assert train(config).valid_success > 0.5
