"""Whoever imports the mathematics may bring tensors, numpy arrays, nested lists or whole numbers, and any labels."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from agentbench.train import advantages, losses, ratios
from agentbench.train.advantages import gae, gigpo, group_normalise, leave_one_out, length_adaptive_lambda
from agentbench.train.losses import aggregate, policy_loss, truncated_importance_weights
from agentbench.train.ratios import log_ratio
from tests.train.properties import same

X = torch.tensor([[0.5, -1.0, 2.0, 0.0], [1.5, 0.25, -0.5, 1.0]], dtype=torch.float64)
Y = X.flip(1)
MASK = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 0]])
TURN = torch.tensor([[0, 0, -1, 1], [-1, 0, 1, -1]])
B = torch.tensor([0.5, -2.0], dtype=torch.float64)
GAMMAS: dict[str, Any] = {"gamma": 0.9, "lam": 0.8}
CLIP: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.3}

Convert = Callable[[Tensor], Any]
CALLS: dict[str, Callable[[Convert], Any]] = {
    "gae": lambda c: gae(c(X), c(Y), c(MASK), gamma=0.9, lam=c(B.abs().clamp(max=1)), last_values_b=c(B)),
    "turn_gae": lambda c: advantages.turn_gae(c(X), c(Y), c(MASK), **GAMMAS, last_values_b=c(B)),
    "bilevel_gae": lambda c: advantages.bilevel_gae(c(X), c(Y), c(MASK), c(TURN), **GAMMAS, high_gamma=0.7),
    "returns_to_go": lambda c: advantages.returns_to_go(c(X), c(MASK), gamma=0.9),
    "reinforce_plus_plus": lambda c: advantages.reinforce_plus_plus(c(X), c(MASK), gamma=0.9),
    "group_normalise": lambda c: group_normalise(c(X[0]), "aabb", scale="std"),
    "leave_one_out": lambda c: leave_one_out(c(X[0]), "aabb"),
    "gigpo": lambda c: gigpo(c(X[0]), c(Y[0]), "aabb", "xxxx", "pqpq", weight=1.0, scale="std"),
    "whiten": lambda c: advantages.whiten(c(X), c(MASK)),
    "length_adaptive_lambda": lambda c: length_adaptive_lambda(c(X.exp() * 20), 0.5),
    "log_ratio": lambda c: log_ratio(c(X), c(Y), c(MASK), c(TURN), level="turn", reduce="geometric"),
    "turns_on": lambda c: ratios.turns_on(c(MASK), c(TURN)),
    "turn_starts": lambda c: ratios.turn_starts(c(TURN)),
    "turn_ends": lambda c: ratios.turn_ends(c(TURN)),
    "aggregate": lambda c: aggregate(c(X), c(MASK), "turn-mean", c(TURN), denominator=c(B.abs())),
    "denominators": lambda c: losses.denominators(c(MASK), "turn-sum-per-token", c(TURN)),
    "policy_loss": lambda c: policy_loss(c(X), c(Y), c(MASK), **CLIP, weights_bt=c(X.exp())).loss,
    "policy_stats": lambda c: tuple(losses.policy_stats(c(X), c(Y), c(MASK), **CLIP).values()),
    "truncated_importance_weights": lambda c: truncated_importance_weights(
        c(X), c(Y), c(MASK), level="turn", cap=2.0, turn_bt=c(TURN)
    ),
    "value_loss": lambda c: losses.value_loss(c(X), c(Y), c(X + Y), c(MASK), clip=0.2),
    "value_clip_fraction": lambda c: losses.value_clip_fraction(c(X), c(Y), c(X + Y), c(MASK), clip=0.2),
    "kl_penalty": lambda c: losses.kl_penalty(c(X), c(Y), "k3"),
    "entropy_from_logits": lambda c: losses.entropy_from_logits(c(X)),
}


def test_every_public_function_is_called_here() -> None:
    public = {
        name
        for module in (advantages, ratios, losses)
        for name, found in vars(module).items()
        if callable(found) and getattr(found, "__module__", "") == module.__name__ and not isinstance(found, type)
    }
    assert set(CALLS) == {name for name in public if not name.startswith(("_", "require_"))}


@pytest.mark.parametrize("name", CALLS)
def test_arrays_and_lists_give_what_tensors_give(name: str) -> None:
    def read_only(x: Tensor) -> Any:
        array = np.flip(x.numpy().copy(), 0)[::-1]
        array.setflags(write=False)
        return array

    def parts(result: Any) -> tuple[Tensor, ...]:
        return result if isinstance(result, tuple) else (result,)

    want = parts(CALLS[name](lambda x: x))
    for convert in (read_only, lambda x: x.tolist()):
        for got, expected in zip(parts(CALLS[name](convert)), want, strict=True):
            assert got.dtype == expected.dtype
            same(got, expected)


@pytest.mark.parametrize("whole", [torch.bool, torch.int64])
def test_whole_numbers_are_float64(whole: torch.dtype) -> None:
    won, labels = torch.tensor([1, 0, 1, 1]).to(whole), [0, 0, 1, 1]
    rows, ones = won[None], torch.ones(1, 4)
    calls: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda s, r: group_normalise(s, labels, scale="std"),
        lambda s, r: leave_one_out(s, labels),
        lambda s, r: gigpo(s, s, labels, labels, labels, weight=1.0, scale="none", vote="episode"),
        lambda s, r: advantages.whiten(s, s),
        lambda s, r: advantages.reinforce_plus_plus(r, ones, gamma=0.9),
        lambda s, r: gae(r, r, ones, gamma=0.9, lam=0.5).advantages,
        lambda s, r: losses.value_loss(r, r, 1 - r.double(), ones, clip=0.2),
    ]
    for call in calls:
        got = call(won, rows)
        assert got.dtype == torch.float64
        same(got, call(won.double(), rows.double()))
    assert length_adaptive_lambda(100, 0.05).dtype == length_adaptive_lambda(100.0, 0.05).dtype == torch.float64


@pytest.mark.parametrize("mask", [MASK.bool(), MASK.double(), MASK.to(torch.uint8)])
def test_masks_may_be_of_any_type(mask: Tensor) -> None:
    same(gae(X, Y, mask, **GAMMAS).advantages, gae(X, Y, MASK, **GAMMAS).advantages)
    want, got = (policy_loss(X, Y, m, **CLIP, aggregate="turn-mean", turn_bt=TURN) for m in (MASK, mask))
    same(got.loss, want.loss)
    assert losses.policy_stats(X, Y, mask, **CLIP)["votes"] == MASK.sum()


def test_gradients_and_precision_pass_the_door() -> None:
    x = X.float().requires_grad_()
    loss = policy_loss(log_ratio(x, Y.numpy(), MASK, None, level="token", reduce="product"), Y, MASK, **CLIP).loss  # type: ignore[arg-type]
    torch.autograd.backward(loss)
    assert x.grad is not None and x.grad[MASK.bool()].any()
    assert gae(X.float(), X.float(), MASK, **GAMMAS).returns.dtype == torch.float32


LABELS: list[Any] = ["aab", ["x", "x", ("y", 1)], [-1.5, -1.5, 2], np.array(["a", "a", "b"]), torch.tensor([-1, -1, 7])]


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_labels_may_be_anything_that_can_be_told_apart(labels: Any) -> None:
    x, y, mask = (torch.cat([z, z[:1]]) for z in (X, Y, MASK))
    plain = torch.tensor([0, 0, 1])
    calls: list[Callable[[Any], Tensor]] = [
        lambda e: log_ratio(x, y, mask, None, level="sequence", reduce="geometric", episode_b=e),
        lambda e: truncated_importance_weights(x, y, mask, level="sequence", cap=2.0, episode_b=e),
        lambda e: aggregate(x, mask, "seq-mean-token-mean", episode_b=e),
        lambda e: leave_one_out(x[:, 0], e),
        lambda e: gigpo(x[:, 0], x[:, 1], e, e, e, weight=1.0, scale="none", vote="episode"),
    ]
    for call in calls:
        same(call(labels), call(plain))


def test_one_number_stands_for_every_row() -> None:
    for number, both in product((0.5, torch.tensor(0.5), np.float64(0.5)), [torch.tensor([0.5, 0.5])]):
        for name in ("last_values_b", "lam"):
            got, want = (gae(X, Y, MASK, **{**GAMMAS, name: x}).advantages for x in (number, both))
            same(got, want)
