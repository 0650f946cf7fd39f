"""Extremes, empty masks, precision, and what is refused."""

import math
from typing import Any

import pytest
import torch

from agentbench.train.advantages import (
    bilevel_gae,
    gae,
    group_normalise,
    leave_one_out,
    length_adaptive_lambda,
    reinforce_plus_plus,
    whiten,
)
from agentbench.train.losses import (
    aggregate,
    kl_penalty,
    policy_loss,
    truncated_importance_weights,
    value_loss,
)
from agentbench.train.ratios import Level, log_ratio
from tests.train.episodes import Token
from tests.train.properties import CLIP, MODES, draw, same


def test_extreme_log_ratios_stay_finite_and_have_no_gradient() -> None:
    new = torch.tensor([[-0.01, -500.0]]).double().requires_grad_()
    old, mask = torch.tensor([[-900.0, -0.01]]).double(), torch.ones(1, 2)
    pooled = log_ratio(new, old, mask, None, level="token", reduce="product")
    assert pooled.tolist() == [[20.0, -20.0]]
    torch.autograd.backward(policy_loss(pooled, -mask.double(), mask, **CLIP, dual_clip=3.0).loss)
    assert new.grad is not None and not new.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_empty_mask_gives_zero_and_the_type_that_came_in(dtype: torch.dtype) -> None:
    x, turns = torch.full((2, 3), math.nan, dtype=dtype, requires_grad=True), torch.full((2, 3), -1)
    nothing = torch.zeros(2, 3)
    for mode in MODES:
        pooled = log_ratio(x, x.detach(), nothing, turns, level="turn", reduce="geometric")
        got = policy_loss(pooled, x, nothing, **CLIP, aggregate=mode, turn_bt=turns)
        assert float(got.loss.detach()) == 0 and got.loss.dtype == dtype
        assert all(float(value) == 0 for value in got.stats.values())
        torch.autograd.backward(got.loss)
        assert float(value_loss(x, x, x, nothing, clip=0.2, aggregate=mode, turn_bt=turns).detach()) == 0
    estimates = [
        *gae(x, x, nothing, gamma=1.0, lam=1.0),
        *bilevel_gae(x, x, nothing, turns, gamma=1.0, lam=1.0, high_gamma=1.0),
        reinforce_plus_plus(x, nothing, gamma=1.0),
        truncated_importance_weights(x, x, nothing, level="sequence", cap=2.0),
    ]
    for estimate in estimates:
        assert estimate.dtype == dtype and not estimate.any() and not estimate.requires_grad
    assert leave_one_out(torch.zeros(0, dtype=dtype), []).shape == (0,)


def read(token: Token) -> float:
    return token.new


def test_float32_gives_the_numbers_of_float64_within_its_precision() -> None:
    rows = draw(2)
    x, mask = rows(read), rows.mask_bt
    got, want = (gae(y, y, mask, gamma=0.9, lam=0.8).advantages for y in (x.float(), x))
    assert got.dtype == torch.float32
    same(got.double(), want, 1e-5)


def test_only_the_policy_and_the_critic_that_are_trained_get_gradients() -> None:
    rows = draw(3)
    new, old, advantages, weights, value, target = (rows(lambda token: token.new).requires_grad_() for _ in range(6))
    mask = rows.mask_bt
    ratios = log_ratio(new, old.detach(), mask, None, level="token", reduce="product")
    torch.autograd.backward(policy_loss(ratios, advantages, mask, **CLIP, weights_bt=weights).loss)
    torch.autograd.backward(value_loss(value, old, target, mask, clip=0.2))
    assert new.grad is not None and value.grad is not None
    assert all(constant.grad is None for constant in (old, advantages, weights, target))


@pytest.mark.parametrize("level", ["token", "turn", "sequence"])
def test_log_ratios_are_zero_off_the_mask(level: Level) -> None:
    rows = draw(3)
    new, old = rows(read), rows(lambda token: token.old)
    got = log_ratio(new, old, rows.mask_bt, rows.turn_bt, level=level, reduce="product")
    assert not got[rows.mask_bt == 0].any() and got[rows.mask_bt == 1].all()


def typo(name: str) -> Any:
    """Hide a wrong name from the type checker, which would find it."""
    return name


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x, m: gae(x, x[:, :1], m, gamma=1.0, lam=1.0), "the same for all"),
        (lambda x, m: gae(x, x, m, gamma=1.0, lam=1.0, last_values_b=torch.zeros(3)), "one number per row"),
        (lambda x, m: gae(x, x, m, gamma=1.0, lam=torch.zeros(3)), "one number per row"),
        (lambda x, m: whiten(x, m[0]), "one shape"),
        (lambda x, m: leave_one_out(x[:, 0], "abc"), "each of 2 rows or scores; found 3"),
        (lambda x, m: leave_one_out(x, "ab"), "one score per element"),
        (lambda x, m: group_normalise(x[:, 0], "ab", scale=typo("max")), "it can be std, none"),
        (lambda x, m: length_adaptive_lambda(3, 0.0), "must be positive"),
        (lambda x, m: log_ratio(x, x, m, None, level="turn", reduce="product"), "pass turn_bt"),
        (lambda x, m: log_ratio(x, x, m, m.long() - 2, level="turn", reduce="product"), "must belong to a turn"),
        (
            lambda x, m: log_ratio(x, x, m, None, level=typo("word"), reduce="product"),
            "it can be token, turn, sequence",
        ),
        (lambda x, m: aggregate(x, m, typo("mean")), "it can be token-mean"),
        (lambda x, m: aggregate(x, m, "turn-mean"), "pass turn_bt"),
        (lambda x, m: aggregate(x, m, "token-mean", denominator=0), "must be positive"),
        (lambda x, m: aggregate(x, m, "token-mean", denominator=torch.tensor([1.0, 0.0])), "must be positive"),
        (lambda x, m: aggregate(x, m, "token-mean", denominator=torch.ones(5)), "one per row"),
        (lambda x, m: log_ratio(x, x, m, None, level="sequence", reduce="product", episode_b="abc"), "found 3"),
        (lambda x, m: aggregate(x, m, "token-mean", episode_b=[0]), "each of 2 rows or scores; found 1"),
        (lambda x, m: policy_loss(x, x, m, **CLIP, dual_clip=1.0), "must be above 1"),
        (lambda x, m: policy_loss(x, x, m, **CLIP, weights_bt=x[:1]), "the same for all"),
        (lambda x, m: kl_penalty(x, x, typo("k4")), "it can be k1, k2, k3"),
        (lambda x, m: kl_penalty(x, x[:1], "k1"), "the same shape"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call(torch.zeros(2, 4), torch.ones(2, 4))
