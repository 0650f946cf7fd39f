"""What must hold of losses and ratios whatever the numbers are."""

import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agentbench.train.losses import (
    Aggregation,
    PolicyLoss,
    aggregate,
    entropy_from_logits,
    kl_penalty,
    policy_loss,
    truncated_importance_weights,
    value_clip_fraction,
    value_loss,
)
from agentbench.train.ratios import Level, Reduction, log_ratio
from tests.train.episodes import Row, Tensors
from tests.train.properties import CLIP, MODES, draw, few, same, seeds


class Policy:
    """Log-probabilities and advantages of some rows, and the loss and its gradient."""

    def __init__(self, rows: Tensors, *, on_policy: bool = False, constant: str | None = None) -> None:
        self.rows, self.mask, self.turns = rows, rows.mask_bt, rows.turn_bt
        self.old = rows(lambda token: token.old)
        self.start = self.old if on_policy else rows(lambda token: token.new)
        self.advantages = rows(lambda token: token.advantage, 0.0)
        if constant is not None:
            level: Level = "turn" if constant == "turn" else "sequence"
            zeros = torch.zeros_like(self.advantages)
            self.advantages = log_ratio(self.advantages, zeros, self.mask, self.turns, level=level, reduce="geometric")

    def __call__(self, level: Level, reduce: Reduction, mode: Aggregation, **options: Any) -> tuple[PolicyLoss, Tensor]:
        new = self.start.clone().requires_grad_()
        pooled = log_ratio(new, self.old, self.mask, self.turns, level=level, reduce=reduce)
        options = {**CLIP, "turn_bt": self.turns, **options}
        got = policy_loss(pooled, self.advantages, self.mask, aggregate=mode, **options)
        torch.autograd.backward(got.loss)
        assert new.grad is not None
        return got, new.grad


def equal(one: tuple[PolicyLoss, Tensor], two: tuple[PolicyLoss, Tensor]) -> None:
    same(one[0].loss, two[0].loss)
    same(one[1], two[1])


@few
@given(seeds)
def test_with_turns_of_one_token_turn_losses_are_token_losses(seed: int) -> None:
    policy = Policy(draw(seed, tokens=1, turns=5))
    for reduce in get_args(Reduction):
        equal(policy("turn", reduce, "turn-sum-per-token"), policy("token", reduce, "seq-mean-token-mean"))
        equal(policy("turn", reduce, "seq-mean-turn-sum"), policy("token", reduce, "seq-mean-token-sum"))
        equal(policy("turn", reduce, "turn-mean"), policy("token", reduce, "token-mean"))


@few
@given(seeds)
def test_with_one_turn_the_geometric_turn_ratio_is_gspo_and_the_product_is_not(seed: int) -> None:
    rows = draw(seed, turns=1, tokens=5)
    policy = Policy(rows, constant="sequence")
    gspo = policy("sequence", "geometric", "seq-mean-token-mean")
    equal(policy("turn", "geometric", "seq-mean-turn-sum"), gspo)
    equal(policy("turn", "geometric", "turn-mean"), gspo)
    wide = {"clip_low": 1.0, "clip_high": 1e9}
    apart = (
        policy("turn", "product", "turn-mean", **wide)[0].loss
        - policy("turn", "geometric", "turn-mean", **wide)[0].loss
    )
    assert (rows.mask_bt.sum(1) > 1).any() == bool(apart.detach().abs() > 1e-9)


@few
@given(seeds)
def test_on_policy_every_clipped_gradient_is_the_policy_gradient(seed: int) -> None:
    policy = Policy(draw(seed), on_policy=True)
    got, grad = policy("token", "product", "token-mean", dual_clip=3.0)
    same(grad, -policy.advantages / policy.mask.sum())
    for name, value in got.stats.items():
        assert float(value) == (1.0 if name.startswith("ratio") else policy.mask.sum() if name == "votes" else 0.0)


@few
@given(seeds)
def test_on_policy_turns_and_sequences_have_the_gradient_of_tokens(seed: int) -> None:
    token = ("token", "product", "seq-mean-token-mean")
    by_turn = Policy(draw(seed), on_policy=True, constant="turn")
    same(by_turn("turn", "product", "turn-sum-per-token")[1], by_turn(*token)[1])  # type: ignore[arg-type]
    by_sequence = Policy(draw(seed), on_policy=True, constant="sequence")
    same(by_sequence("sequence", "geometric", "seq-mean-token-mean")[1], by_sequence(*token)[1])  # type: ignore[arg-type]


@few
@given(st.integers(1, 4), st.integers(1, 5), seeds)
def test_with_equal_lengths_means_of_tokens_and_of_sequences_agree(rows: int, length: int, seed: int) -> None:
    x = torch.randn(rows, length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    mask = torch.ones_like(x)
    want = aggregate(x, mask, "token-mean")
    same(aggregate(x, mask, "seq-mean-token-mean"), want)
    same(aggregate(x, mask, "seq-mean-token-sum") / length, want)


@few
@given(seeds)
def test_the_decoupled_form_is_ppo_when_the_sample_is_fresh_and_a_weighted_ppo_otherwise(seed: int) -> None:
    policy = Policy(draw(seed))
    options = {"level": "token", "cap": float("inf")}
    fresh = truncated_importance_weights(policy.old, policy.old, policy.mask, **options)  # type: ignore[arg-type]
    assert torch.equal(fresh, policy.mask)
    plain = ("token", "product", "token-mean")
    equal(policy(*plain, weights_bt=fresh), policy(*plain))  # type: ignore[arg-type]
    rollout = policy.rows(lambda token: token.rollout)
    stale = truncated_importance_weights(policy.old, rollout, policy.mask, **options)  # type: ignore[arg-type]
    same(stale[policy.mask.bool()], (policy.old - rollout).exp()[policy.mask.bool()])
    capped = truncated_importance_weights(policy.old, rollout, policy.mask, level="token", cap=1.1)
    assert torch.equal(capped, stale.clamp(max=1.1))
    same(policy(*plain, weights_bt=stale)[1], policy(*plain)[1] * stale)  # type: ignore[arg-type]


@few
@given(seeds)
def test_dual_clip_bounds_the_loss_of_negative_advantages_and_nothing_else(seed: int) -> None:
    rows = draw(seed, spread=3.0)
    policy = Policy(rows)
    for b, t in policy.mask.nonzero().tolist():
        policy.mask = torch.zeros_like(rows.mask_bt)
        policy.mask[b, t], advantage = 1.0, float(policy.advantages[b, t])
        (bounded, _), (free, _) = (policy("token", "product", "token-mean", dual_clip=c) for c in (3.0, None))
        assert float(bounded.loss.detach()) <= max(-3.0 * advantage, 0.0) + 1e-12
        if advantage > 0:
            assert torch.equal(bounded.loss, free.loss)


@pytest.mark.parametrize("mode", MODES)
def test_padding_row_order_and_observations_change_no_loss(mode: Aggregation) -> None:
    rows = draw(11)
    stretched = [
        Row(row.episode, [x for t in row.tokens for x in (None, t)], [x for k in row.turns for x in (-1, k)])
        for row in reversed(rows.rows)
    ]
    one, two = Policy(rows), Policy(Tensors(stretched, padding=6))
    for level in get_args(Level):
        a, b = one(level, "geometric", mode), two(level, "geometric", mode)
        same(a[0].loss, b[0].loss)
        same(a[1].flip(0)[one.mask.flip(0).bool()], b[1][two.mask.bool()])


def test_means_of_micro_batches_do_not_average_to_the_mean_of_the_batch() -> None:
    x, mask = torch.tensor([[1.0, 1, 1], [4, 0, 0]]).double(), torch.tensor([[1.0, 1, 1], [1, 0, 0]])
    whole_batch = aggregate(x, mask, "token-mean")
    naive = (aggregate(x[:1], mask[:1], "token-mean") + aggregate(x[1:], mask[1:], "token-mean")) / 2
    assert abs(float(naive - whole_batch)) > 0.1
    counts: dict[Aggregation, int] = {"token-mean": 4, "seq-mean-token-mean": 2, "seq-mean-token-sum": 2}
    for mode, count in counts.items():
        parts = [aggregate(x[b : b + 1], mask[b : b + 1], mode, denominator=count) for b in range(2)]
        same(sum(parts, torch.zeros(()).double()), aggregate(x, mask, mode))


@few
@given(st.lists(st.floats(-6, 0), min_size=2, max_size=6), seeds)
def test_k3_is_never_negative_and_k1_and_k3_average_to_the_divergence(logits: list[float], seed: int) -> None:
    new = torch.log_softmax(torch.tensor(logits, dtype=torch.float64), 0)
    ref = torch.log_softmax(torch.randn(len(logits), generator=torch.Generator().manual_seed(seed)).double(), 0)
    kl = (new.exp() * (new - ref)).sum()
    same((new.exp() * kl_penalty(new, ref, "k1")).sum(), kl)
    same((new.exp() * kl_penalty(new, ref, "k3")).sum(), kl)
    assert (kl_penalty(new, ref, "k3") >= 0).all() and not kl_penalty(new, new, "k3").any()


def test_gradients_of_the_divergence_estimators() -> None:
    ref = torch.zeros(1, 3).double()
    d = torch.tensor([[-0.7, 0.1, 0.9]]).double()
    for kind, slope in (("k1", torch.ones_like(d)), ("k2", d), ("k3", 1 - (-d).exp())):
        new = d.clone().requires_grad_()
        torch.autograd.backward(kl_penalty(new, ref, kind).sum())  # type: ignore[arg-type]
        assert new.grad is not None
        same(new.grad, slope)


def test_entropy_of_a_uniform_distribution_is_the_logarithm_of_its_size() -> None:
    logits = torch.zeros(2, 5).double()
    same(entropy_from_logits(logits), torch.tensor(5.0).double().log())
    logits[:, 3:] = -math.inf
    logits.requires_grad_()
    torch.autograd.backward(entropy_from_logits(logits).sum())
    same(entropy_from_logits(logits).detach(), torch.tensor(3.0).double().log())
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


def test_an_unclipped_critic_has_the_gradient_of_the_squared_error() -> None:
    rows = draw(4)
    values = rows(lambda token: token.value).requires_grad_()
    old, returns = rows(lambda token: token.old_value), rows(lambda token: token.target)
    torch.autograd.backward(value_loss(values, old, returns, rows.mask_bt, clip=None))
    assert values.grad is not None
    error = torch.where(rows.mask_bt.bool(), values.detach() - returns, 0.0)
    same(values.grad, error / rows.mask_bt.sum())
    assert value_clip_fraction(values, old, returns, rows.mask_bt, clip=None) == 0
    clipped, wide = (value_loss(values, old, returns, rows.mask_bt, clip=c) for c in (0.1, 1e9))
    assert float(clipped.detach()) >= float(wide.detach())
