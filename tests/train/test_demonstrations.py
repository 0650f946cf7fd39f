"""Learning from recorded episodes: what succeeded is played again and learned from, and nothing else is taken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import IntegrityError, UsageError
from agentbench.core.records import RunDirectory
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.train.config import TrainConfig
from agentbench.train.loop import train
from agentbench.train.sft import Recordings

ENV = "sokoban/tiny"
Recipe = Callable[..., TrainConfig]


def recorded(out: Path, env: str = f"{ENV}:train", model: str = "oracle", **more: Any) -> Path:
    evaluate(EvalConfig(model=model, env=env, episodes=5, out=out, **more))
    (run,) = out.iterdir()
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("oracle"))


def test_a_recording_teaches_as_who_was_recorded_would(run: Path, recipe: Recipe) -> None:
    rows: list[dict[str, Any]] = []
    config = recipe(env=ENV, algorithm={"name": "sft"}, demonstrations=str(run), rollout={"episodes": 12})
    train(config, listen=rows.append)
    learned = [row for row in rows if row["stage"] == "sft"]
    assert [row["episode/success"] for row in learned] == [1.0] * 3
    assert learned[-1]["policy/loss"] < learned[0]["policy/loss"]


def test_every_recorded_episode_is_drawn_before_any_is_drawn_twice(run: Path, recipe: Recipe) -> None:
    teacher = Recordings(run, recipe(env=ENV).resolve_env())
    tasks = [planned.task for planned in RunDirectory.open(run).plan()]
    plan = teacher.plan(12, 0, "warm-start", 1)
    assert len({planned.key for planned in plan}) == 12
    drawn = [planned.task for planned in plan]
    assert set(drawn[:5]) == set(drawn[5:10]) == set(tasks)
    assert teacher.plan(12, 0, "warm-start", 1) == plan
    assert [planned.task for planned in teacher.plan(12, 0, "warm-start", 2)] != drawn


def test_what_fails_when_it_is_played_again_is_not_learned(run: Path, recipe: Recipe) -> None:
    changed = {"episodes": 4, "max_turns": 1}
    config = recipe(env=ENV, algorithm={"name": "sft"}, demonstrations=str(run), rollout=changed)
    with pytest.raises(IntegrityError, match="without success when it is played again"):
        train(config)


@pytest.mark.parametrize("changes", [{"algorithm": {"name": "sft"}}, {"warm_start": {"updates": 1}}], ids=str)
def test_a_reply_that_would_be_cut_in_play_is_not_taught(changes: dict[str, Any], recipe: Recipe) -> None:
    with pytest.raises(UsageError, match=r"max_tokens = 5 cuts .* set rollout.max_tokens = 6 or more"):
        train(recipe(env=ENV, rollout={"episodes": 16, "max_tokens": 5}, **changes))


def test_an_entropy_bonus_leaves_demonstrations_alone(recipe: Recipe) -> None:
    few: dict[str, Any] = {"rollout": {"episodes": 2, "max_tokens": 8}, "validation": {"every": 0, "episodes": 2}}
    few |= {"warm_start": {"updates": 2, "episodes": 4, "minibatches": 1}, "budget": {"updates": 1}}
    losses = []
    for coef in (0.0, 1.0):
        rows: list[dict[str, Any]] = []
        train(recipe(env=ENV, regularise={"entropy_coef": coef}, **few), listen=rows.append)
        losses.append([row["policy/loss"] for row in rows if row["stage"] == "warm-start"])
    assert losses[0] == losses[1]


def test_what_cannot_teach_is_refused(run: Path, recipe: Recipe, tmp_path: Path) -> None:
    resolved = recipe(env=ENV).resolve_env()
    with pytest.raises(UsageError, match="no run directory"):
        Recordings(tmp_path, resolved)
    with pytest.raises(UsageError, match=r"expected one of webshop/tiny@0:train"):
        Recordings(run, recipe(env="webshop/tiny").resolve_env())
    with pytest.raises(UsageError, match=r"sokoban/tiny@0:test, expected"):
        Recordings(recorded(tmp_path / "test", f"{ENV}:test"), resolved)
    with pytest.raises(UsageError, match="nothing to learn from"):
        Recordings(recorded(tmp_path / "nop", model="nop", max_turns=2), resolved)
    with pytest.raises(UsageError, match="demonstrations need a warm_start, or sft"):
        recipe(env=ENV, algorithm={"name": "grpo"}, demonstrations=str(run))
