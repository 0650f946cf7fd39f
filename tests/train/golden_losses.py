"""Checks of recorded losses, gradients, divergences and importance weights."""

from typing import Any, cast

import torch
from torch import Tensor

from agentbench.train.losses import (
    Aggregation,
    PolicyLoss,
    aggregate,
    kl_penalty,
    policy_loss,
    truncated_importance_weights,
    value_loss,
)
from agentbench.train.ratios import Level, Reduction, log_ratio
from tests.train.golden import Case, checks


class Voting:
    """An aggregation of another library, in our terms."""

    def __init__(self, mode: str, mask: Tensor, params: dict[str, Any]) -> None:
        size = params.get("dp_size", 1)
        total = {"token-mean": params.get("batch_num_tokens"), "seq-mean": params.get("global_batch_size")}
        self.mode, self.denominator = (
            cast(Aggregation, mode),
            total["token-mean" if mode == "token-mean" else "seq-mean"],
        )
        if mode == "seq-mean-token-sum-norm":  # in spite of its name a sum over tokens, divided by a constant
            self.mode, size = "token-mean", 1
            self.denominator = params.get("loss_scale_factor") or mask.shape[1]
        if self.denominator is not None:
            self.denominator = self.denominator / size

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        return aggregate(x, mask, self.mode, denominator=self.denominator)


def leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


def held(new: Tensor, pooled: Tensor, mask: Tensor) -> Tensor:
    """Give each token the pooled value and the gradient of its own log-probability, as GSPO-token does."""
    return torch.where(mask.bool(), new - new.detach() + pooled.detach(), 0.0)


def clipped(case: Case, log_ratios: Tensor, advantages: Tensor, mode: Aggregation, **options: Any) -> PolicyLoss:
    """Run our policy loss with the clip range of a case, whatever it is called there."""
    params = case.params
    low = params.get("clip_ratio_low", params.get("eps_clip", params.get("clip_low", params.get("epsilon_low", 0.2))))
    names = ("clip_ratio_high", "eps_clip_higher", "clip_high", "clip_eps_high", "epsilon_high")
    high = next((params[name] for name in names if name in params), low)
    low = params.get("clip_eps_low", low)
    return policy_loss(
        log_ratios, advantages, options.pop("mask", case.mask), clip_low=low, clip_high=high, aggregate=mode, **options
    )


@checks("verl_policy_losses", "compute_policy_loss_vanilla")
def verl_ppo(case: Case) -> None:
    new, mask = leaf(case["log_prob"]), case.mask
    voting = Voting(case.params["loss_agg_mode"], mask, case.params)
    got = clipped(
        case,
        log_ratio(new, case["old_log_prob"], mask, None, level="token", reduce="product"),
        case["advantages"],
        voting.mode,
        denominator=voting.denominator,
        dual_clip=case.params["clip_ratio_c"],
        weights_bt=case["rollout_is_weights"] if case.params.get("uses_rollout_is_weights") else None,
    )
    torch.autograd.backward(got.loss)
    case.expect("loss", got.loss)
    case.expect_grad("log_prob", new)
    expect_verl_metrics(case, got)


def expect_verl_metrics(case: Case, got: PolicyLoss) -> None:
    case.expect("metrics:actor/pg_clipfrac", got.stats["clip_fraction"])
    case.expect("metrics:actor/pg_clipfrac_lower", got.stats["dual_clip_fraction"])


@checks("verl_policy_losses", "compute_policy_loss_gspo")
def verl_gspo(case: Case) -> None:
    new, mask = leaf(case["log_prob"]), case.mask
    pooled = log_ratio(new, case["old_log_prob"], mask, None, level="sequence", reduce="geometric")
    got = clipped(case, held(new, pooled, mask), case["advantages"], "seq-mean-token-mean")
    torch.autograd.backward(got.loss)
    case.expect("loss", got.loss)
    case.expect_grad("log_prob", new)
    expect_verl_metrics(case, got)


@checks("skyrl", "ppo_policy_loss", "gspo_policy_loss")
def skyrl_ppo(case: Case) -> None:
    """There losses are summed; what they are divided by is folded into the advantages."""
    new, mask = leaf(case["log_prob"]), case.mask
    sequence = case.function.startswith("gspo")
    level: Level = "sequence" if sequence else "token"
    pooled = log_ratio(new, case["old_log_prob"], mask, None, level=level, reduce="geometric")
    ratios = held(new, pooled, mask) if sequence else pooled
    dual_clip = case.params.get("dual_clip")
    got = clipped(case, ratios, case["advantages"], "token-mean", dual_clip=dual_clip, denominator=1.0)
    torch.autograd.backward(got.loss)
    case.expect("loss_sum", got.loss)
    case.expect_grad("log_prob", new)
    case.expect("clip_ratio", got.stats["clip_fraction"])


@checks("openrlhf", "PolicyLoss")
def openrlhf_ppo(case: Case) -> None:
    params, mask, new = case.params, case.mask, leaf(case["log_prob"])
    gspo, corrected = params.get("policy_loss_type") == "gspo", params.get("enable_vllm_is_correction", False)
    old = case["rollout_log_prob" if gspo and corrected else "old_log_prob"]
    level: Level = "sequence" if gspo else "token"
    weights = openrlhf_weights(case) if corrected and not gspo else None
    got = clipped(
        case,
        log_ratio(new, old, mask, None, level=level, reduce="geometric"),
        case["advantages"],
        "token-mean" if params.get("token_level_loss", True) and not gspo else "seq-mean-token-mean",
        dual_clip=params.get("dual_clip"),
        weights_bt=weights,
    )
    torch.autograd.backward(got.loss)
    case.expect("loss", got.loss)
    case.expect_grad("log_prob", new)
    case.expect("clip_ratio", got.stats["clip_fraction"])


def openrlhf_weights(case: Case) -> Tensor:
    """Return importance weights that are kept in range, or dropped outside it."""
    (low, high), mask = case.params["vllm_is_truncated_threshold"], case.mask
    old, rollout = case["old_log_prob"], case["rollout_log_prob"]
    kind = case.params.get("vllm_is_correction_type", "tis")
    if kind == "tis":
        return truncated_importance_weights(old, rollout, mask, level="token", cap=high, floor=low)
    plain = truncated_importance_weights(old, rollout, mask, level="token", cap=float("inf"))
    judged = plain
    if kind == "seq-mask-tis":
        judged = log_ratio(old, rollout, mask, None, level="sequence", reduce="geometric").exp()
    return torch.where((judged >= low) & (judged <= high), plain, 0.0)


@checks("areal", "ppo_actor_loss_fn")
def areal_decoupled_ppo(case: Case) -> None:
    params, mask, new = case.params, case.mask, leaf(case["log_prob"])
    sequence = params.get("importance_sampling_level") == "sequence"
    advantages = case["advantages"]
    if sequence:
        advantages = (advantages * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1) * mask
    level: Level = "sequence" if sequence else "token"
    weights = areal_weights(case) if "rejection_sampling" in params else None
    got = clipped(
        case,
        log_ratio(new, case["prox_log_prob"], mask, None, level=level, reduce="geometric"),
        advantages,
        "token-mean",
        dual_clip=params.get("c_clip"),
        weights_bt=weights,
    )
    torch.autograd.backward(got.loss)
    case.expect("loss", got.loss)
    case.expect_grad("log_prob", new)
    if weights is not None:
        case.expect("behave_imp_weight", weights, mask)


def areal_weights(case: Case) -> Tensor:
    """Return the ratio of the proximal to the behaviour policy, clamped, or dropped where it is out of range."""
    rule, mask = case.params["rejection_sampling"], case.mask
    proximal, behaviour = case["prox_log_prob"], case["old_log_prob"]
    low, high = rule["lower"] or 0.0, rule["upper"]
    plain = truncated_importance_weights(proximal, behaviour, mask, level="token", cap=float("inf"))
    judged = plain
    if rule["level"] == "sequence":
        judged = log_ratio(proximal, behaviour, mask, None, level="sequence", reduce="geometric").exp()
    if rule["action"] == "clamp":
        return torch.where(mask.bool(), judged.clamp(low, high), 0.0)
    if rule["metric"] == "kl_k3":
        judged = kl_penalty(behaviour, proximal, "k3")
    kept = judged if rule["level"] == "sequence" else plain
    return torch.where(mask.bool() & (judged >= low) & (judged <= high), kept, 0.0)


@checks("trl", "GRPOTrainer._compute_loss", "RLOOTrainer._compute_loss")
def trl_loss(case: Case) -> None:
    params, mask, new = case.params, case.mask, leaf(case["per_token_logps"])
    kind = params.get("loss_type", "grpo")
    rloo = case.function.startswith("RLOO")
    level: Level = "sequence" if rloo or params["importance_sampling_level"] == "sequence" else "token"
    reduce: Reduction = "product" if rloo else "geometric"
    mode: Aggregation = {"grpo": "seq-mean-token-mean", "luspo": "seq-mean-token-sum"}.get(kind, "token-mean")  # type: ignore[assignment]
    divisor = {"dr_grpo": len(mask) * params.get("max_completion_length", 0), "dapo": params.get("num_items_in_batch")}
    got = clipped(
        case,
        log_ratio(new, case["old_per_token_logps"], mask, None, level=level, reduce=reduce),
        case["advantages"][:, None].expand_as(mask),
        mode,
        dual_clip=params.get("delta"),  # TRL's upper bound of the ratio acts where A < 0 only: a dual clip
        denominator=divisor.get(kind),
    )
    kl = kl_penalty(new, case["ref_per_token_logps"], "k3")
    total = got.loss + params.get("beta", 0.0) * aggregate(kl, mask, mode, denominator=divisor.get(kind))
    torch.autograd.backward(total)
    case.expect("loss", total)
    case.expect_grad("per_token_logps", new)
    if level == "token":
        case.expect("metrics:clip_ratio/low_mean", got.stats["clip_fraction_low"])
        case.expect("metrics:clip_ratio/high_mean", got.stats["clip_fraction_high"])


@checks("cleanrl", "loss block")
def cleanrl_loss(case: Case) -> None:
    params = case.params
    new, values = leaf(case["newlogprob"][None]), leaf(case["new_values"][None])
    everything = torch.ones_like(new)
    advantages = case["advantages"][None]
    if params["norm_adv"]:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratios = log_ratio(new, case["oldlogprob"][None], everything, None, level="token", reduce="product")
    clip = params["clip_coef"]
    got = policy_loss(ratios, advantages, everything, clip_low=clip, clip_high=clip)
    value_clip = clip if params["clip_vloss"] else None
    critic = value_loss(values, case["old_values"][None], case["returns"][None], everything, clip=value_clip)
    total = got.loss - params["ent_coef"] * case["entropy"].mean() + params["vf_coef"] * critic
    torch.autograd.backward(total)
    case.expect("loss", total)
    case.expect("pg_loss", got.loss)
    case.expect("v_loss", critic)
    case.expect("approx_kl", got.stats["approx_kl"])
    case.expect("old_approx_kl", got.stats["approx_kl_k1"])
    case.grads = {name: [grad] for name, grad in case.grads.items()}
    case.expect_grad("newlogprob", new)
    case.expect_grad("new_values", values)


@checks("miles", "compute_policy_loss")
def miles_loss_of_each_token(case: Case) -> None:
    mask, ratios = case.mask, case["log_prob"] - case["old_log_prob"]
    losses, clips = torch.zeros_like(mask), torch.zeros_like(mask)
    for b, t in torch.ones_like(mask).nonzero().tolist():
        one = torch.zeros_like(mask).index_put((torch.tensor(b), torch.tensor(t)), torch.tensor(1.0).double())
        got = clipped(case, ratios, case["advantages"], "token-mean", mask=one, dual_clip=case.params["dual_clip"])
        losses[b, t], clips[b, t] = got.loss, got.stats["clip_fraction"]
    case.expect("pg_loss", losses, mask)
    case.expect("clipfrac", clips, mask)


@checks("miles", "compute_gspo_kl")
def miles_gspo_divergence(case: Case) -> None:
    new, old = case["log_prob"], case["old_log_prob"]
    case.expect("ppo_kl", -log_ratio(new, old, case.mask, None, level="sequence", reduce="geometric"), case.mask)


@checks("turn_level", "compute_policy_loss_turn_ppo", "compute_policy_loss_turn_gspo")
def turn_losses(case: Case) -> None:
    if case.repo.startswith("iOPEN"):
        turn_ppo(case)
    else:
        vagen_turn_loss(case)


def turn_ppo(case: Case) -> None:
    new, mask, turns = leaf(case["log_prob"]), case.mask, case.turns
    ratios = log_ratio(new, case["old_log_prob"], mask, turns, level="turn", reduce="product")
    got = clipped(case, ratios, case["advantages"], "turn-sum-per-token", turn_bt=turns)
    torch.autograd.backward(got.loss)
    case.expect("loss", got.loss)
    case.expect_grad("log_prob", new)


def vagen_turn_loss(case: Case) -> None:
    """There each token carries its turn's ratio; where a turn has one advantage, the exact gradient is the same."""
    mask, turns, advantages = case.mask, case.turns, case["advantages"]
    geometric = case.function.endswith("gspo")
    reduce: Reduction = "geometric" if geometric else "product"
    new = leaf(case["log_prob"])
    pooled = log_ratio(new, case["old_log_prob"], mask, turns, level="turn", reduce=reduce)
    length = torch.stack([(turns == turn[:, None]).sum(1) for turn in turns.T], 1)
    per_turn = length if geometric else torch.ones_like(length)
    got = clipped(case, held(new, pooled, mask), advantages / per_turn, "seq-mean-token-sum")
    torch.autograd.backward(got.loss)
    case.expect("loss", got.loss)
    case.expect_grad("log_prob", new)
    if case.params["advantages"] == "advantages_turn_constant":
        exact = leaf(case["log_prob"])
        pooled = log_ratio(exact, case["old_log_prob"], mask, turns, level="turn", reduce=reduce)
        got = clipped(case, pooled, advantages, "seq-mean-turn-sum", turn_bt=turns)
        torch.autograd.backward(got.loss)
        case.expect_grad("log_prob", exact)
        if geometric:
            case.expect("loss", got.loss)


@checks("turn_level", "clipped_is_surrogate")
def surrogate_of_units(case: Case) -> None:
    """There advantages are averaged over the unit; the loss is a mean over all units of the batch."""
    params, mask, new = case.params, case.mask, leaf(case["log_prob"])
    unit = params["importance_sampling_level"]
    turns = torch.where(mask.bool(), 0, -1) if unit == "trajectory" else case.turns
    reduce: Reduction = "product" if params["turn_reduction"] == "sum" else "geometric"
    level: Level = "token" if unit == "token" else "turn"
    advantages = case["advantages"]
    if level == "turn":
        zeros = torch.zeros_like(advantages)
        advantages = log_ratio(advantages, zeros, mask, turns, level="turn", reduce="geometric")
    got = policy_loss(
        log_ratio(new, case["old_log_prob"], mask, turns, level=level, reduce=reduce),
        advantages,
        mask,
        clip_low=params["clip_coef"],
        clip_high=params["clip_coef"],
        aggregate="token-mean" if level == "token" else "turn-mean",
        turn_bt=turns,
    )
    torch.autograd.backward(got.loss)
    case.expect("loss", got.loss)
    case.expect_grad("log_prob", new)
