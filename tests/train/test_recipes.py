"""A recipe that cannot work is refused before anything is spent, with one line that says what to change."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import agentbench
from agentbench.core.errors import AgentBenchError, RunInvalid, UsageError
from agentbench.core.records import RunDirectory
from agentbench.evaluate.config import read_toml
from agentbench.train.algorithms import TokenPPO, TurnPPO
from agentbench.train.config import Regularise, TrainConfig
from agentbench.train.loop import train
from agentbench.train.stages import stages_of

RECIPES = sorted((Path(agentbench.__file__).parent / "recipes").glob("*.toml"))
INSTALLED = agentbench.environments()

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"optimm": {"lr": 1.0}}, "optimm"),
    ({"optim": {"lr": "fast"}}, "optim.lr"),
    ({"optim": {"lr": -1.0}}, "optim.lr"),
    ({"optim": {"learning_rate": 1.0}}, "optim.learning_rate"),
    ({"budget": {}}, "budget has no limit"),
    ({"model": "checkpoints/best", "words": ["buy"]}, "has its tokenizer: set words = []"),
    ({"algorithm": {"name": "ppoo"}}, "no algorithm 'ppoo'"),
    (
        {"algorithm": {"name": "turn-ppo", "lamda": 1.0}},
        "algorithm.lamda = 1.0: Extra inputs are not permitted; known: ",
    ),
    ({"algorithm": {"name": "turn-ppo", "clip_high": math.inf}}, "algorithm.clip_high = inf: Input should be a finite"),
    ({"algorithm": {"name": "turn-ppo", "dual_clip": math.nan}}, "algorithm.dual_clip = nan"),
    ({"algorithm": {"name": "turn-ppo", "value_coef": math.nan}}, "algorithm.value_coef = nan"),
    ({"algorithm": {"name": "token-ppo", "adaptive_alpha": math.inf}}, "algorithm.adaptive_alpha = inf"),
    (
        {"algorithm": {"name": "grpo", "group_size": True}},
        "algorithm.group_size = True: Input should be a valid integer",
    ),
    ({"reward": {"terms": {"success": math.nan}}}, "reward.terms.success = nan: Input should be a finite"),
    ({"optim": {"lr": math.inf}}, "optim.lr = inf: Input should be a finite"),
    ({"optim": {"weight_decay": math.inf}}, "optim.weight_decay = inf: Input should be a finite"),
    ({"optim": {"lr": "3e-4"}}, "optim.lr = '3e-4': Input should be a valid number"),
    ({"budget": {"updates": True}}, "budget.updates = True: Input should be a valid integer"),
    ({"reward": {"terms": {}}}, "reward.terms is empty"),
    ({"reward": {"terms": {"success": 1.0}, "gates": {"potential": 1.0}}}, "potential is shaping"),
    ({"env": "sokoban/tiny:test"}, "leave :test out"),
    ({"algorithm": {"name": "sft"}, "regularise": {"entropy_coef": 0.1}}, "regularise.entropy_coef needs tokens"),
    ({"algorithm": {"name": "turn-ppo", "value_at": "middle"}}, "value_at"),
    ({"algorithm": {"name": "turn-ppo", "clip_low": 1.5}}, "clip_low"),
    ({"algorithm": {"name": "grpo", "group_size": 1}}, "at least 2"),
    ({"algorithm": {"name": "grpo", "group_size": 5}}, "no multiple"),
    ({"algorithm": {"name": "grpo"}, "value_pretraining": {"updates": 1}}, "needs a critic"),
    ({"algorithm": {"name": "rloo"}, "rollout": {"episodes": 16, "truncation": "bootstrap"}}, "needs a critic"),
    ({"algorithm": {"name": "token-ppo", "credit_mode": "bilevel", "adaptive_alpha": 0.05}}, "adaptive_alpha"),
    ({"algorithm": {"name": "turn-ppo", "ratio": "token"}}, "one ratio per turn"),
    ({"algorithm": {"name": "turn-ppo", "gamma": 1.5}}, "gamma must be between 0 and 1"),
    ({"algorithm": {"name": "turn-ppo", "lam": -0.5}}, "lam must be between 0 and 1"),
    ({"algorithm": {"name": "turn-ppo", "lam_critic": 2.0}}, "lam_critic must be between"),
    ({"algorithm": {"name": "turn-ppo", "group_size": 0}}, "group_size must be at least 1"),
    ({"algorithm": {"name": "turn-ppo", "value_clip": 0.0}}, "leave it out"),
    ({"algorithm": {"name": "token-ppo", "value_coef": -1.0}}, "value_coef must not be negative"),
    ({"algorithm": {"name": "token-ppo", "adaptive_alpha": 0.0}}, "adaptive_alpha must be positive"),
    ({"algorithm": {"name": "token-ppo", "gamma": 0.99}, "reward": "dense"}, "set algorithm.gamma = 1"),
    (
        {"algorithm": {"name": "turn-ppo", "group_size": 8}, "value_pretraining": {"updates": 1, "episodes": 12}},
        "value_pretraining.episodes = 12 is no multiple",
    ),
    (
        {
            "algorithm": {"name": "turn-ppo", "value_at": "last"},
            "rollout": {"episodes": 16, "truncation": "bootstrap"},
        },
        "take value_at = 'first'",
    ),
    ({"regularise": {"kl_coef": 0.1, "kl_kind": "k1"}}, "teaches nothing"),
    ({"regularise": {"kl_target": 0.1}}, "kl_coef = 0 stays 0"),
    ({"algorithm": {"name": "sft"}, "regularise": {"kl_coef": 0.1}}, "tokens that the policy sampled"),
    (
        {"algorithm": {"name": "grpo"}, "regularise": {"kl_coef": 0.1, "kl_in": "reward"}},
        "take kl_in = 'loss', or scale = 'none'",
    ),
    ({"optim": {"learning_rate": 2.0}}, "known: lr, critic_lr"),
    ({"warm_start": {"updates": 1, "rate": 2.0}}, "known: updates, cpu_seconds"),
    ({"reward": {"terms": {"won": 1.0}, "weights": {}}}, "known: terms, final, gates"),
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


def test_value_pretraining_is_not_held_back_by_the_clip_of_the_main_stage() -> None:
    for clip in (None, 0.25):
        recipe: dict[str, Any] = {"model": "init:xs", "env": "sokoban/tiny", "budget": {"updates": 1}}
        recipe |= {"algorithm": {"name": "turn-ppo"}, "value_pretraining": {"updates": 1, "value_clip": clip}}
        early, main = stages_of(TrainConfig.parse(recipe))
        assert [getattr(stage.algorithm, "value_clip", 0) for stage in (early, main)] == [clip, 0.5]


def test_the_divergence_is_estimated_as_fits_the_place_where_it_is_charged() -> None:
    assert Regularise(kl_coef=0.1).kind == "k3"
    assert Regularise(kl_coef=0.1, kl_in="reward").kind == "k1"
    assert "biased" in Regularise(kl_coef=0.1, kl_in="reward", kl_kind="k3").choices()[0]
    assert "biased" not in Regularise(kl_coef=0.1, kl_in="reward").choices()[0]


def test_shaping_discounts_as_the_algorithm_does_per_turn() -> None:
    assert TurnPPO(gamma=0.9).shaping_gamma == 0.9
    assert TokenPPO(credit_mode="bilevel", high_gamma=0.8).shaping_gamma == 0.8
    assert TokenPPO().shaping_gamma == 1.0
    assert TokenPPO(gamma=0.99).shaping_gamma is None


def test_an_adaptive_coefficient_stays_above_zero(recipe: Callable[..., TrainConfig]) -> None:
    steered = {"kl_coef": 0.1, "kl_target": 0.1}
    with pytest.raises(UsageError, match=r"kl_horizon = 12.8 .* 64 episodes .* set it above 12.8"):
        recipe(env="sokoban/tiny", rollout={"episodes": 64}, regularise={**steered, "kl_horizon": 12.8})
    recipe(env="sokoban/tiny", rollout={"episodes": 64}, regularise={**steered, "kl_horizon": 12.9})
    recipe(env="sokoban/tiny", rollout={"episodes": 64}, regularise={"kl_coef": 0.1, "kl_horizon": 1})


def test_a_missing_key_is_told_with_how_to_set_it() -> None:
    with pytest.raises(UsageError, match="recipe: model is missing; set it in a recipe, or with --set model="):
        TrainConfig.parse({"env": "sokoban/tiny", "budget": {"updates": 1}})


def test_whole_numbers_are_numbers_and_lists_are_lists(recipe: Callable[..., TrainConfig]) -> None:
    config = recipe(
        env="sokoban/tiny", words=["push"], optim={"lr": 1}, algorithm={"name": "turn-ppo", "value_clip": 1}
    )
    assert (config.words, config.optim.lr, config.make_algorithm().value_clip) == (("push",), 1.0, 1.0)


REFUSED: list[tuple[dict[str, Any], type[AgentBenchError]]] = [
    ({"model": "nope"}, AgentBenchError),
    ({"model": "init:huge"}, UsageError),
    ({"env_args": {"foo": 1}}, UsageError),
]


@pytest.mark.parametrize(("change", "error"), REFUSED, ids=str)
def test_a_recipe_that_cannot_start_leaves_no_run_behind(
    change: dict[str, Any], error: type[AgentBenchError], recipe: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    with pytest.raises(error):
        train(recipe(env="sokoban/tiny", **change))
    assert not list(tmp_path.glob("runs/*"))


def test_shaping_where_there_is_no_potential_is_refused(
    fake: Callable[[str], str], recipe: Callable[..., TrainConfig]
) -> None:
    with pytest.raises(UsageError, match="bandit/sure@0 reports no potential"):
        train(recipe(env=fake("BANDIT"), reward="dense", algorithm={"name": "sft"}))


def test_a_run_that_diverged_is_invalid(fake: Callable[[str], str], recipe: Callable[..., TrainConfig]) -> None:
    config = recipe(env=fake("BANDIT"), algorithm={"name": "sft"}, optim={"lr": 1e30, "warmup": 0})
    with pytest.raises(RunInvalid, match="diverged"):
        train(config)
    (run,) = config.out.iterdir()
    assert RunDirectory.open(run).state["status"] == "invalid"


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

    rows: list[dict[str, Any]] = []
    for name in ("turn-ppo", "grpo"):
        config = recipe(env=fake("ECHO"), algorithm={"name": name}, regularise={"kl_coef": 0.01}, budget={"updates": 1})
        train(config, listen=rows.append)
    logged = {name for row in rows for name in row} - {"stage", "update"}
    assert {"policy/entropy", "valid/success", "policy/kl_reference", "entropy/turn_0"} <= logged
    for name in logged:
        assert describe(name).meaning


def test_a_model_that_does_not_fit_is_refused_before_anything_is_spent() -> None:
    from agentbench.core.errors import PrerequisiteError
    from agentbench.train.workshop import require_memory

    gib = 2**30
    require_memory(gib, gib, 2 * gib)
    with pytest.raises(PrerequisiteError, match=r"needs 2.0 GiB .* 1.0 GiB .* 2.0 GiB are free: take a smaller model"):
        require_memory(2 * gib, gib, 2 * gib)
    with pytest.raises(PrerequisiteError, match=r"needs 1.0 GiB .* 2.0 GiB .* take a smaller optim.micro_tokens"):
        require_memory(gib, 2 * gib, 2 * gib)


def test_activations_are_counted_as_autograd_keeps_them(tmp_path: Path) -> None:
    from agentbench.policies.checkpoint import load_checkpoint
    from agentbench.policies.init import init_named
    from agentbench.train.forward import activation_bytes, recompute_layers

    model = load_checkpoint(init_named("xs", tmp_path / "model"), device="cpu", dtype="float32").model
    kept: dict[int, int] = {}
    alive = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        alive.append(tensor)
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.base_model(input_ids=torch.zeros(2, 500, dtype=torch.long), use_cache=False)
    weights = sum(each.numel() * 4 for each in model.parameters())
    counted = activation_bytes(model, 1000)
    assert 0.9 * (sum(kept.values()) - weights) < counted < 1.1 * sum(kept.values())
    recompute_layers(model)
    assert activation_bytes(model, 1000) < counted / 2
