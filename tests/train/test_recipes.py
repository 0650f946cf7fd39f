"""A recipe that cannot work is refused before anything is spent, with one line that says what to change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentbench
from agentbench.core.errors import UsageError
from agentbench.evaluate.config import read_toml
from agentbench.train.config import TrainConfig

RECIPES = sorted((Path(agentbench.__file__).parent / "recipes").glob("*.toml"))
INSTALLED = agentbench.environments()

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"optimm": {"lr": 1.0}}, "optimm"),
    ({"optim": {"lr": "fast"}}, "optim.lr"),
    ({"optim": {"lr": -1.0}}, "optim.lr"),
    ({"optim": {"learning_rate": 1.0}}, "optim.learning_rate"),
    ({"budget": {}}, "budget has no limit"),
    ({"algorithm": {"name": "ppoo"}}, "no algorithm 'ppoo'"),
    ({"algorithm": {"name": "turn-ppo", "lamda": 1.0}}, "no field 'lamda'"),
    ({"algorithm": {"name": "turn-ppo", "value_at": "middle"}}, "value_at"),
    ({"algorithm": {"name": "turn-ppo", "clip_low": 1.5}}, "clip_low"),
    ({"algorithm": {"name": "grpo", "group_size": 1}}, "at least 2"),
    ({"algorithm": {"name": "grpo", "group_size": 5}}, "no multiple"),
    ({"algorithm": {"name": "grpo"}, "value_pretraining": {"updates": 1}}, "needs a critic"),
    ({"algorithm": {"name": "rloo"}, "rollout": {"episodes": 16, "truncation": "bootstrap"}}, "needs a critic"),
    ({"algorithm": {"name": "token-ppo", "credit_mode": "bilevel", "adaptive_alpha": 0.05}}, "adaptive_alpha"),
    ({"warm_start": {"lr": 1e-3}}, "updates or cpu_seconds"),
    ({"reward": {"terms": {"gold": 1.0}}}, "no reward term 'gold'"),
    ({"reward": "lots"}, "reward"),
    ({"env": "sokobann"}, "sokoban"),
    ({"rollout": {"episodes": 16, "context": "windows:2"}}, "windows:2"),
]


@pytest.mark.parametrize(("change", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_recipe_is_refused_in_one_line(
    change: dict[str, Any], said: str, recipe: Callable[..., TrainConfig]
) -> None:
    with pytest.raises(UsageError) as refused:
        recipe(**{"env": "sokoban/tiny", **change})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_bundled_recipes_are_valid(path: Path) -> None:
    values = read_toml(path)
    assert values["note"], "a recipe says where its settings come from"
    if values["env"].partition("/")[0] not in INSTALLED:
        with pytest.raises(UsageError, match="no environment"):
            TrainConfig.parse(values)
        return
    TrainConfig.parse(values)


def test_every_metric_that_is_logged_is_in_the_catalogue(
    fake: Callable[[str], str], recipe: Callable[..., TrainConfig]
) -> None:
    from agentbench.metrics.catalogue import describe
    from agentbench.train.loop import train

    rows: list[dict[str, Any]] = []
    for name in ("turn-ppo", "grpo"):
        config = recipe(env=fake("ECHO"), algorithm={"name": name}, regularise={"kl_coef": 0.01}, budget={"updates": 1})
        train(config, listen=rows.append)
    logged = {name for row in rows for name in row} - {"stage", "update"}
    assert {"policy/entropy", "valid/success", "policy/kl_reference", "entropy/turn_0"} <= logged
    for name in logged:
        assert describe(name).meaning
