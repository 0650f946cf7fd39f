"""Every algorithm gives the advantages, targets, losses and gradients of its definition, whatever its fields say.

The definitions stand in `definitions.py` as loops over episodes, turns and tokens. Batches have several turns and
several sequences per episode, unequal lengths, penalties in the reward, and cut-offs that are bootstrapped.
"""

from dataclasses import replace
from itertools import product
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from agentbench.core.errors import UsageError
from agentbench.core.types import Trajectory
from agentbench.train.algorithms import GRPO, RLOO, SFT, TokenPPO, TurnPPO
from agentbench.train.algorithms.surrogate import Surrogate, denominators
from agentbench.train.batch import Batch, Credit, Forward, make_batch
from agentbench.train.losses import Aggregation, truncated_importance_weights
from agentbench.train.ratios import Level
from tests.train import definitions
from tests.train.definitions import Algorithm, Episode
from tests.train.rollouts import rewards_of, trajectory

CAP = 1.2
PER_TURN = ("turn-mean", "seq-mean-turn-sum", "turn-sum-per-token")
PER_TOKEN = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")
Made = TypeVar("Made", TurnPPO, TokenPPO, GRPO, RLOO)
REDUCTIONS: tuple[Aggregation, ...] = get_args(Aggregation)


def made(kind: type[Made], **choices: Any) -> Made:
    """Build an algorithm from fields that a loop went through."""
    return kind(**choices)


TURN_PPO = [
    made(TurnPPO, value_at=value_at, ratio=ratio, whiten=whiten, reduction=reduction)
    for value_at, ratio, whiten, reduction in product(
        ("first", "last", "mean"), ("product", "geometric", "token"), ("turn", "token", "none"), REDUCTIONS
    )
    if ratio != "token" or reduction in PER_TOKEN
]
TOKEN_PPO = [
    *(made(TokenPPO, gamma=0.97, lam=0.9, whiten=w, reduction=r) for w, r in product(("token", "none"), PER_TOKEN)),
    TokenPPO(gamma=0.97, lam=0.9, credit_mode="bilevel", high_gamma=0.8),
    TokenPPO(gamma=0.97, lam=0.9, credit_mode="bilevel", high_gamma=0.8, whiten="none", lam_critic=1.0),
    TokenPPO(lam_critic=1.0),
    TokenPPO(adaptive_alpha=0.5),
    TokenPPO(adaptive_alpha=0.5, lam_critic=1.0, gamma=0.97),
    TokenPPO(clip_high=0.28, dual_clip=1.5, value_clip=None),
]
GROUPED = [
    *(made(GRPO, group_size=2, scale=scale, reduction=r) for scale, r in product(("std", "none"), PER_TOKEN)),
    *(made(GRPO, group_size=2, ratio="turn", reduction=r) for r in REDUCTIONS),
    *(made(GRPO, group_size=2, ratio="sequence", reduction=r) for r in PER_TOKEN),
    GRPO(group_size=2, ratio="sequence", clip_low=3e-4, clip_high=4e-4),
    *(made(RLOO, group_size=2, ratio=ratio, reduction=r) for ratio, r in product(("token", "sequence"), PER_TOKEN)),
    *(made(RLOO, group_size=2, ratio="turn", reduction=r, dual_clip=1.5) for r in REDUCTIONS),
]
TURN_PPO += [
    TurnPPO(lam_critic=1.0, clip_low=0.1, clip_high=0.4, dual_clip=1.3),
    TurnPPO(gamma=0.9, lam=0.5, value_clip=None, value_coef=1.0),
]


def label(algorithm: Algorithm) -> str:
    changed = {key: value for key, value in vars(algorithm).items() if getattr(type(algorithm), key) != value}
    return algorithm.name + "".join(f" {key}={value}" for key, value in changed.items())


def episodes(seed: int) -> list[Trajectory]:
    """Six episodes: two groups, and one episode that is alone in its own; two were cut off."""
    rng = np.random.default_rng(seed)
    cuts = [(), (1,), (2,), (), (1, 2), (1,)]
    played = [
        trajectory(rng, 1 + int(rng.integers(len(cut), 4)), task=f"task {e % 2}", fresh=cut)
        for e, cut in enumerate(cuts)
    ]
    played[5].task = "alone"
    played[1].last_value, played[4].last_value = float(rng.normal()), float(rng.normal())
    return played


def both(seed: int, *, stale: bool) -> tuple[list[Episode], Batch]:
    """The same episodes as plain numbers and as a batch in float64."""
    played, rng = episodes(seed), np.random.default_rng(seed + 100)
    plain = [definitions.read(one, rng, stale=stale, penalised=True) for one in played]
    batch = make_batch(played, rewards_of(played), [one.task for one in played])
    assert batch.values_bt is not None
    assert len(batch.episode_b) > len(played), "some episode has several sequences"
    for mine, theirs in (
        (lambda token: token.sampled, batch.logprobs_bt),
        (lambda token: token.old_value, batch.values_bt),
    ):
        assert definitions.tensor(plain, mine).equal(theirs.double())
    batch = replace(
        batch,
        mask_bt=batch.mask_bt.double(),
        logprobs_bt=definitions.tensor(plain, lambda token: token.old),
        values_bt=batch.values_bt.double(),
        penalties_bt=definitions.tensor(plain, lambda token: token.penalty),
        rewards_ek=batch.rewards_ek.double(),
        turn_mask_ek=batch.turn_mask_ek.double(),
        last_value_e=batch.last_value_e.double(),
    )
    return plain, batch


def same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def gradient(x: Tensor) -> float:
    return 0.0 if x.grad is None else float(x.grad)


@pytest.mark.parametrize("algorithm", [*TURN_PPO, *TOKEN_PPO, *GROUPED], ids=label)
def test_credit_and_loss_follow_the_definition(algorithm: Algorithm) -> None:
    for seed, stale in ((0, False), (1, True)):
        plain, batch = both(seed, stale=stale)
        definitions.assign(algorithm, plain)
        credit = algorithm.credit(batch)
        same(credit.advantages_bt, definitions.tensor(plain, lambda token: token.advantage))
        if credit.returns_bt is not None and credit.value_mask_bt is not None:
            taught = definitions.tensor(plain, lambda token: float(token.taught))
            same(credit.value_mask_bt, taught)
            same(credit.returns_bt * taught, definitions.tensor(plain, lambda token: token.target * token.taught))
        if stale:
            credit = credit._replace(weights_bt=weights(algorithm, plain, batch))
        new = definitions.tensor(plain, lambda token: token.new.item()).requires_grad_()
        value = definitions.tensor(plain, lambda token: token.value.item()).requires_grad_()
        got = algorithm.loss(Forward(new, new, value, None), batch, credit, algorithm.denominator(batch, credit))
        want = definitions.loss(algorithm, plain, CAP if stale else None)
        same(got.total.detach(), want.detach())
        torch.autograd.backward(got.total)
        torch.autograd.backward(want)
        same(new.grad, definitions.tensor(plain, lambda token: gradient(token.new)))  # type: ignore[arg-type]
        if value.grad is not None:
            same(value.grad, definitions.tensor(plain, lambda token: gradient(token.value)))


def weights(algorithm: Algorithm, plain: list[Episode], batch: Batch) -> Tensor:
    """As the learner weighs samples of a policy that is not quite its own."""
    sampled_bt = definitions.tensor(plain, lambda token: token.sampled)
    return truncated_importance_weights(
        batch.logprobs_bt,
        sampled_bt,
        batch.mask_bt,
        level=algorithm.unit,
        cap=CAP,
        turn_bt=batch.turn_bt,
        episode_b=batch.episode_b,
    )


def test_supervised_training_is_the_mean_surprise_of_all_tokens() -> None:
    plain, batch = both(0, stale=False)
    tokens = [token for episode in plain for token in episode.tokens]
    new = definitions.tensor(plain, lambda token: token.new.item()).requires_grad_()
    algorithm = SFT()
    credit = algorithm.credit(batch)
    got = algorithm.loss(Forward(new, new, None, None), batch, credit, algorithm.denominator(batch, credit))
    assert float(got.total.detach()) == pytest.approx(-sum(token.new.item() for token in tokens) / len(tokens))
    torch.autograd.backward(got.total)
    same(new.grad, definitions.tensor(plain, lambda token: -1 / len(tokens)))  # type: ignore[arg-type]


@pytest.mark.parametrize("reduction", PER_TURN)
def test_a_ratio_that_is_not_of_turns_is_refused_where_one_is_read_per_turn(reduction: Aggregation) -> None:
    for build in (
        lambda: TurnPPO(ratio="token", reduction=reduction),
        lambda: TokenPPO(reduction=reduction),
        lambda: GRPO(reduction=reduction),
        lambda: GRPO(ratio="sequence", reduction=reduction),
        lambda: RLOO(reduction=reduction),
    ):
        with pytest.raises(UsageError, match="one ratio per turn"):
            build()


REPEATED, SHORTENED = "counts once for each of its tokens", "the tokens of a long turn count less"
CHEAP = "long failures cost less"
LABELS: list[tuple[Level, Literal["product", "geometric"], dict[Aggregation, tuple[str, ...]]]] = [
    ("token", "product", {"token-mean": (), "seq-mean-token-sum": (), "seq-mean-token-mean": (CHEAP,)}),
    (
        "turn",
        "product",
        {
            "token-mean": (f"a turn {REPEATED}",),
            "seq-mean-token-sum": (f"a turn {REPEATED}",),
            "seq-mean-token-mean": (f"a turn {REPEATED}", CHEAP),
            "turn-mean": (),
            "seq-mean-turn-sum": (),
            "turn-sum-per-token": (CHEAP,),
        },
    ),
    (
        "turn",
        "geometric",
        {
            "token-mean": (),
            "seq-mean-token-sum": (),
            "seq-mean-token-mean": (CHEAP,),
            "turn-mean": (SHORTENED,),
            "seq-mean-turn-sum": (SHORTENED,),
            "turn-sum-per-token": (SHORTENED, CHEAP),
        },
    ),
    (
        "sequence",
        "product",
        {
            "token-mean": (f"a sequence {REPEATED}",),
            "seq-mean-token-sum": (f"a sequence {REPEATED}",),
            "seq-mean-token-mean": (),
        },
    ),
    ("sequence", "geometric", {"token-mean": (), "seq-mean-token-sum": (), "seq-mean-token-mean": (CHEAP,)}),
]
LABELLED = [(level, reduce, *row) for level, reduce, table in LABELS for row in table.items()]


@pytest.mark.parametrize(("level", "reduce", "reduction", "said"), LABELLED)
def test_a_combination_is_labelled_if_fresh_samples_have_unequal_weights(
    level: Level, reduce: Literal["product", "geometric"], reduction: Aggregation, said: tuple[str, ...]
) -> None:
    surrogate = Surrogate(level, reduce, reduction, 0.2, 0.2, None)
    assert surrogate.bias.count(";") == max(0, len(said) - 1)
    assert all(label in surrogate.bias for label in said)
    assert bool(surrogate.bias) == bool(said)

    _, batch = both(0, stale=False)
    new = batch.logprobs_bt.clone().requires_grad_()
    everywhere = Credit(batch.mask_bt.clone())
    denominator = denominators(surrogate, batch, everywhere).policy_b
    torch.autograd.backward(surrogate.loss(Forward(new, new, None, None), batch, everywhere, denominator).total)
    assert new.grad is not None
    weights_n = -new.grad[batch.mask_bt > 0]
    assert torch.allclose(weights_n, weights_n.mean()) == (not said)


def test_every_algorithm_prints_its_label_and_its_clip() -> None:
    for algorithm in (TurnPPO(), TokenPPO(), GRPO(), RLOO(), RLOO(reduction="seq-mean-token-mean", dual_clip=3.0)):
        choices = algorithm.choices()
        assert f"reduction: {algorithm.reduction}{algorithm.surrogate.bias}" in choices
        assert any(choice.startswith("clip: 0.2 below 1, 0.2 above") for choice in choices)
    adapted = TokenPPO(adaptive_alpha=0.05).choices()
    assert "gamma 1.0 per token, lambda 1 - 1 / (0.05 x tokens of the episode)" in adapted
    assert "gamma 1.0 per token, 0.8 per turn, lambda 0.95" in TokenPPO(credit_mode="bilevel", high_gamma=0.8).choices()
