"""Checks of recorded aggregations, critic losses, divergences, entropies and importance weights."""

from typing import cast

import torch
from torch import Tensor

from agentbench.train.losses import (
    Aggregation,
    aggregate,
    entropy_from_logits,
    kl_penalty,
    policy_loss,
    truncated_importance_weights,
    value_clip_fraction,
    value_loss,
)
from agentbench.train.ratios import Level, Reduction, log_ratio, turn_ends
from tests.train.golden import Case, checks
from tests.train.golden_losses import Voting, leaf


@checks("verl_agg_loss", "agg_loss")
def aggregation(case: Case) -> None:
    mask = case["loss_mask"]
    case.expect("out", Voting(case.params["loss_agg_mode"], mask, case.params)(case["loss_mat"], mask))


@checks("skyrl", "apply_loss_reduction_to_advantages_minibatch")
def reduction_folded_into_advantages(case: Case) -> None:
    """The gradient of an aggregation is the weight of each token."""
    params, mask, kind = case.params, case.mask, case.params["loss_reduction"]
    mode: Aggregation = "token-mean" if kind in ("token_mean", "seq_mean_token_sum_norm") else "seq-mean-token-mean"
    owners = list(range(len(mask)))
    if kind == "prompt_mean":  # a prompt is averaged over its tokens as an episode is
        owners = [p for p, (start, end) in enumerate(params["prompt_boundaries"]) for _ in range(start, end)]
    if kind == "token_mean_legacy":  # and a micro-batch
        owners = [b // params["micro_batch_size"] for b in owners]
    divisor = len(mask) * params["max_seq_len"] if kind == "seq_mean_token_sum_norm" else None
    x = leaf(torch.zeros_like(mask))
    torch.autograd.backward(aggregate(x, mask, mode, episode_b=owners, denominator=divisor))
    assert x.grad is not None
    case.expect("scaled_advantages", case["advantages"] * x.grad)


@checks("verl_masked_ops", "masked_sum", "masked_mean")
def masked_reductions(case: Case) -> None:
    values, mask = case["values"], case["mask"]
    divisor = 1.0 if case.function == "masked_sum" else None
    case.expect("all", aggregate(values, mask, "token-mean", denominator=divisor))
    rows = [aggregate(x[None], m[None], "token-mean", denominator=divisor) for x, m in zip(values, mask, strict=True)]
    case.expect("axis-1", torch.stack(rows))


@checks("verl_masked_ops", "entropy_from_logits", "compute_entropy_loss")
def entropy(case: Case) -> None:
    got = entropy_from_logits(case["logits"])
    if case.function == "compute_entropy_loss":
        got = Voting(case.params["loss_agg_mode"], case["mask"], case.params)(got, case["mask"])
    case.expect("out", got)


@checks("verl_value_loss", "compute_value_loss")
@checks("skyrl", "ppo_critic_loss")
@checks("openrlhf", "ValueLoss")
@checks("areal", "ppo_critic_loss_fn")
def critic(case: Case) -> None:
    params, mask, new = case.params, case.mask, leaf(case["vpreds"])
    clip = next(
        params[name] for name in ("cliprange_value", "value_clip", "clip_eps", "value_eps_clip") if name in params
    )
    by_file = {"skyrl": "seq-mean-token-mean", "areal": "token-mean"}
    per_token = params.get("token_level_loss", True)
    fallback = by_file.get(case.file, "token-mean" if per_token else "seq-mean-token-mean")
    mode = cast(Aggregation, params.get("loss_agg_mode", fallback))
    old, returns = case["values"], case["returns"]
    loss = value_loss(new, old, returns, mask, clip=clip, aggregate=mode)
    torch.autograd.backward(loss)
    case.expect("vf_loss" if case.file.startswith("verl") else "loss", loss)
    case.expect_grad("vpreds", new)
    for name in {"vf_clipfrac", "clipfrac"} & set(case.outputs):
        if clip is not None:
            case.expect(name, value_clip_fraction(new, old, returns, mask, clip=clip))


KINDS = {"kl": "k1", "k1": "k1", "abs": "k1", "mse": "k2", "k2": "k2", "low_var_kl": "k3", "k3": "k3"}


def divergence(kind: str, new: Tensor, ref: Tensor) -> Tensor:
    got = kl_penalty(new, ref, KINDS[kind])  # type: ignore[arg-type]
    return got.abs() if kind == "abs" else got


@checks("verl_kl", "kl_penalty")
def kl_values_and_gradients(case: Case) -> None:
    new = leaf(case["log_prob"])
    got = divergence(case.params["kl_penalty"], new, case["ref_log_prob"])
    torch.autograd.backward(got.sum())
    case.expect("kld", got)
    case.expect_grad("log_prob", new)


@checks("verl_kl", "compute_rewards", "apply_kl_penalty")
def kl_in_the_reward(case: Case) -> None:
    params, scores = case.params, case["rewards_sparse"]
    kl = divergence(params.get("kl_penalty", "k1"), case["old_log_prob"], case["ref_log_prob"])
    if case.function == "compute_rewards":
        case.expect("out", scores - kl * params["kl_ratio"])
        return
    case.expect("token_level_rewards", scores - params["init_kl_coef"] * kl * case.mask)
    case.expect("metrics:actor/reward_kl_penalty", aggregate(kl, case.mask, "seq-mean-token-mean"))


@checks("openrlhf", "compute_reward")
def reward_with_kl(case: Case) -> None:
    kl = kl_penalty(case["old_log_prob"], case["ref_log_prob"], "k1")
    last_token = turn_ends(torch.where(case.mask.bool(), 0, -1))
    scores = case["rewards_sparse"].sum(1, keepdim=True)
    case.expect("reward", last_token * scores - case.params["kl_coef"] * kl * case.mask)


@checks("openrlhf", "compute_approx_kl")
def kl_values(case: Case) -> None:
    case.expect("kl", divergence(case.params["kl_estimator"], case["log_prob"], case["ref_log_prob"]))


@checks("verl_rollout_correction", "compute_rollout_correction_weights")
def verl_importance_weights(case: Case) -> None:
    params, mask = case.params, case.mask
    level, cap = cast(Level, params["rollout_is"]), params["rollout_is_threshold"]
    got = truncated_importance_weights(case["old_log_prob"], case["rollout_log_prob"], mask, level=level, cap=cap)
    if params["rollout_is_batch_normalize"]:
        mode: Aggregation = "token-mean" if level == "token" else "seq-mean-token-mean"
        got = got / aggregate(got, mask, mode)
    case.expect("weights", got)


@checks("miles", "vanilla_tis_function", "icepop_function")
def miles_importance_weights(case: Case) -> None:
    low, high, mask = case.params["clip_low"], case.params["clip_high"], case.mask
    old, rollout = case["old_log_prob"], case["rollout_log_prob"]
    got = truncated_importance_weights(old, rollout, mask, level="token", cap=high, floor=low)
    if case.function.startswith("icepop"):
        plain = truncated_importance_weights(old, rollout, mask, level="token", cap=float("inf"))
        got = torch.where((plain >= low) & (plain <= high), plain, 0.0)
    case.expect("corrected_pg_loss", got * case["advantages"], mask)


@checks("trl", "vLLM importance-sampling block")
def trl_importance_weights(case: Case) -> None:
    mask, level = case.mask, cast(Level, case.params["mode"].split("_")[0])
    old, rollout = case["old_per_token_logps"], case["sampling_per_token_logps"]
    floor, cap = case.params["clip_min"] or 0.0, case.params["clip_max"]
    got = truncated_importance_weights(old, rollout, mask, level=level, cap=cap, floor=floor)
    if case.params["mode"].endswith("mask"):
        plain = truncated_importance_weights(old, rollout, mask, level=level, cap=float("inf"))
        got = torch.where((plain >= floor) & (plain <= cap), plain, 0.0)
    if level == "sequence":
        case.expect("ratio", got.amax(1, keepdim=True))
    else:
        case.expect("ratio", got, mask)


@checks("skyrl", "compute_off_policy_correction")
def skyrl_importance_weights(case: Case) -> None:
    mask, level = case.mask, cast(Level, case.params["tis_ratio_type"])
    cap = case.params[f"{level}_tis_ratio_clip_high"]
    got = truncated_importance_weights(case["old_log_prob"], case["rollout_log_prob"], mask, level=level, cap=cap)
    if level == "sequence":
        case.expect("weight", got.amax(1, keepdim=True))
    else:
        case.expect("weight", got, mask)


@checks("closed_form", "agg_loss")
def closed_aggregation(case: Case) -> None:
    mask = case["loss_mask"]
    case.expect("out", Voting(case.id.removeprefix("agg-"), mask, {})(case["loss_mat"], mask))


@checks("closed_form", "kl_penalty")
def closed_kl(case: Case) -> None:
    difference = case["logp_minus_ref"][None, None]
    case.expect("out", divergence(case.id.removeprefix("kl-"), difference, torch.zeros_like(difference)))


@checks("closed_form", "compute_value_loss")
def closed_value_loss(case: Case) -> None:
    new, old, returns = (case[name][None, None] for name in ("new", "old", "ret"))
    clip = case.params["cliprange_value"]
    case.expect("out", value_loss(new, old, returns, torch.ones_like(new), clip=clip))


@checks(
    "closed_form",
    "compute_policy_loss_turn_ppo",
    "compute_policy_loss_turn_gspo",
    "compute_policy_loss_gspo",
    "compute_policy_loss_vanilla",
)
def closed_policy_loss(case: Case) -> None:
    ratios = case["log_ratio"] if "log_ratio" in case.fields else case["ratio"].log()[None, None]
    advantages = case["advantages"] if "advantages" in case.fields else case["advantage"].expand_as(ratios)
    turns = case.turns if "turn_id" in case.fields else torch.zeros_like(ratios).long()
    everything = torch.ones_like(ratios)
    turn_ppo_like = case.function.endswith("turn_ppo")
    reduce: Reduction = "product" if turn_ppo_like else "geometric"
    pooled = log_ratio(ratios, torch.zeros_like(ratios), everything, turns, level="turn", reduce=reduce)
    clip = case.params["clip"]
    mode: Aggregation = "seq-mean-turn-sum"
    loss = policy_loss(
        pooled,
        advantages,
        everything,
        clip_low=clip,
        clip_high=clip,
        dual_clip=case.params.get("clip_ratio_c"),
        aggregate="turn-sum-per-token" if turn_ppo_like else mode,
        turn_bt=turns,
    ).loss
    case.expect("out", loss)
