"""What must hold of credit whatever the numbers are."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agentbench.train.advantages import (
    Estimate,
    bilevel_gae,
    gae,
    gigpo,
    group_normalise,
    leave_one_out,
    length_adaptive_lambda,
    reinforce_plus_plus,
    returns_to_go,
    turn_gae,
    whiten,
)
from agentbench.train.ratios import turn_ends, turn_starts
from tests.train.episodes import Tensors, draw_episodes, whole
from tests.train.properties import draw, few, same, seeds


class Credit:
    """Rewards and values of some rows, and every estimator on them."""

    def __init__(self, rows: Tensors, junk: float = float("nan")) -> None:
        self.rewards, self.values = rows(lambda token: token.reward, junk), rows(lambda token: token.value, junk)
        self.mask, self.turns = rows.mask_bt, rows.turn_bt
        self.sampled = self.mask.bool()

    def gae(self, gamma: float, lam: float | Tensor, last: Tensor | None = None) -> Estimate:
        return gae(self.rewards, self.values, self.mask, gamma=gamma, lam=lam, last_values_b=last)

    def bilevel(self, gamma: float, lam: float, high: float) -> Estimate:
        return bilevel_gae(self.rewards, self.values, self.mask, self.turns, gamma=gamma, lam=lam, high_gamma=high)

    def turn_gae(self, gamma: float, lam: float) -> Estimate:
        """Turns in columns; the value is that of the first token, the reward that of the last."""
        shape = (len(self.mask), int(self.turns.max()) + 1)
        rewards, values, there = (torch.zeros(shape, dtype=torch.float64) for _ in range(3))
        for b, t in turn_starts(self.turns).nonzero().tolist():
            values[b, self.turns[b, t]], there[b, self.turns[b, t]] = self.values[b, t], 1.0
        for b, t in turn_ends(self.turns).nonzero().tolist():
            rewards[b, self.turns[b, t]] = self.rewards[b, t]
        return turn_gae(rewards, values, there, gamma=gamma, lam=lam)

    def spread(self, x_bk: Tensor) -> Tensor:
        return torch.where(self.sampled, x_bk.gather(1, self.turns.clamp(min=0)), 0.0)


def reward_to_go(credit: Credit) -> Tensor:
    rewards = torch.where(credit.sampled, credit.rewards, 0.0)
    return torch.where(credit.sampled, rewards.flip(1).cumsum(1).flip(1), 0.0)


@few
@given(seeds)
def test_without_discount_the_return_is_the_reward_to_go(seed: int) -> None:
    credit = Credit(draw(seed))
    got = credit.gae(1.0, 1.0)
    same(got.returns, reward_to_go(credit))
    same(got.advantages[credit.sampled], (reward_to_go(credit) - credit.values)[credit.sampled])
    same(returns_to_go(credit.rewards, credit.mask, gamma=1.0), reward_to_go(credit))
    turns = credit.spread(credit.turn_gae(1.0, 1.0).returns)
    same(turns[turn_starts(credit.turns)], reward_to_go(credit)[turn_starts(credit.turns)])


@few
@given(seeds)
def test_with_lambda_zero_the_return_looks_one_action_ahead(seed: int) -> None:
    credit = Credit(draw(seed))
    got = credit.gae(0.9, 0.0).returns
    for b in range(len(got)):
        actions = [*credit.sampled[b].nonzero()[:, 0].tolist()]
        for t, after in pairwise([*actions, None]):
            ahead = 0.0 if after is None else 0.9 * credit.values[b, after]
            same(got[b, t], credit.rewards[b, t] + ahead)


@few
@given(seeds)
def test_turns_of_one_token_are_tokens(seed: int) -> None:
    credit = Credit(draw(seed, tokens=1, turns=5))
    want = credit.gae(0.9, 0.8).advantages
    same(credit.bilevel(0.5, 0.8, 0.9).advantages, want)
    same(credit.spread(credit.turn_gae(0.9, 0.8).advantages), want)


@few
@given(seeds)
def test_bilevel_gae_without_any_discount_is_gae(seed: int) -> None:
    credit = Credit(draw(seed))
    same(credit.bilevel(1.0, 1.0, 1.0).advantages, credit.gae(1.0, 1.0).advantages)


@few
@given(seeds)
def test_whether_two_turns_are_one_matters_to_turns(seed: int) -> None:
    credit = Credit(draw(seed, turns=2, tokens=3))
    merged = Credit(draw(seed, turns=2, tokens=3))
    merged.turns = torch.where(merged.sampled, 0, -1)
    if credit.turns.max() > 0:
        apart = (credit.bilevel(0.9, 0.8, 0.5).advantages - merged.bilevel(0.9, 0.8, 0.5).advantages).abs().max()
        assert apart > 1e-6


@few
@given(seeds, st.floats(0.5, 1.0), st.floats(0.0, 1.0))
def test_observations_padding_and_the_order_of_rows_change_no_credit(seed: int, gamma: float, lam: float) -> None:
    episodes = draw_episodes(seed)
    plain = whole(episodes)
    stretched = whole(draw_episodes(seed))
    for row in stretched.rows:
        row.tokens = [x for token in row.tokens for x in (token, None)]
        row.turns = [x for k in row.turns for x in (k, -1)]
    order = torch.arange(len(plain.rows)).flip(0).tolist()
    permuted = Tensors([plain.rows[b] for b in order])
    for other, rows in ((Tensors(stretched.rows, padding=7), range(len(order))), (permuted, order)):
        one, two = Credit(plain), Credit(other)
        for estimate in ("gae", "bilevel"):
            arguments = (gamma, lam, 0.9)[: 2 if estimate == "gae" else 3]
            want, got = getattr(one, estimate)(*arguments).advantages, getattr(two, estimate)(*arguments).advantages
            for i, b in enumerate(rows):
                same(got[i][two.sampled[i]], want[b][one.sampled[b]])


@few
@given(seeds)
def test_a_bootstrap_counts_as_a_reward_after_the_last_action(seed: int) -> None:
    credit = Credit(draw(seed), junk=0.0)
    last = torch.linspace(-1, 1, len(credit.mask)).double()
    got = credit.gae(0.9, 0.7, last)
    same(got.advantages, credit.gae(0.9, torch.full_like(last, 0.7), last).advantages)
    end = turn_ends(torch.where(credit.sampled, 0, -1))
    credit.rewards = credit.rewards + 0.9 * last[:, None] * end
    same(got.advantages, credit.gae(0.9, 0.7).advantages)


def test_what_stands_off_the_mask_is_never_read_and_outputs_are_zero_there() -> None:
    rows = draw(5)
    dirty, clean = Credit(rows), Credit(rows, junk=0.0)
    for got, want in (
        (dirty.gae(0.9, 0.8), clean.gae(0.9, 0.8)),
        (dirty.bilevel(0.9, 0.8, 0.7), clean.bilevel(0.9, 0.8, 0.7)),
    ):
        for x, y in zip(got, want, strict=True):
            assert torch.equal(x, y) and not x[~clean.sampled].any()
    assert torch.isfinite(reinforce_plus_plus(dirty.rewards, dirty.mask, gamma=0.9)).all()


def test_the_end_of_an_episode_reaches_its_first_turn_through_observations() -> None:
    rewards = torch.tensor([[0.0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]).double()
    mask = torch.tensor([[1.0, 0, 0, 1, 1], [1, 1, 0, 0, 1]])
    same(returns_to_go(rewards, mask, gamma=0.5)[0], torch.tensor([0.25, 0, 0, 0.5, 1]).double())
    got = reinforce_plus_plus(rewards, mask, gamma=0.5)
    assert got[0, 0] > got[1, 0]
    same(got.sum(), torch.zeros(()).double())


scores = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=9)


@few
@given(scores, st.integers(1, 3))
def test_groups_sum_to_zero_and_ignore_a_constant_and_scale(values: list[float], groups: int) -> None:
    s = torch.tensor(values, dtype=torch.float64)
    labels = [("task", n % groups) for n in range(len(values))]
    loo, plain = leave_one_out(s, labels), group_normalise(s, labels, scale="none")
    std = group_normalise(s, labels, scale="std", eps=0.0) if len(values) else plain
    for label in set(labels):
        members = torch.tensor([n for n, other in enumerate(labels) if other == label])
        n = len(members)
        if n == 1:
            assert loo[members] == 0
            continue
        same(loo[members].sum() + plain[members].sum(), torch.zeros(()).double())
        same(loo[members], plain[members] * n / (n - 1))
        same(loo[members], leave_one_out(s + 7.0, labels)[members])
        if s[members].std() > 0:
            same(std[members], plain[members] / s[members].std())
            same(std[members], group_normalise(s * 3.0 + 7.0, labels, scale="std", eps=0.0)[members])
        else:
            assert not loo[members].any() and not plain[members].any()
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(0))
    same(leave_one_out(s[order], [labels[n] for n in order]), loo[order])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_group_of_equal_scores_teaches_nothing_in_any_precision(dtype: torch.dtype) -> None:
    s = torch.full((7,), 0.1, dtype=dtype)
    for got in (leave_one_out(s, "aaaaaaa"), group_normalise(s, "aaaaaaa", scale="std"), whiten(s, torch.ones(7))):
        assert got.dtype == dtype and not got.any()


def test_gigpo_of_single_steps_in_one_state_is_twice_the_centred_score() -> None:
    s, n = torch.tensor([1.0, 0.0, 0.5, 0.25]).double(), range(4)
    for vote in ("step", "episode"):
        got = gigpo(s, s, n, "aaaa", "xxxx", weight=1.0, scale="none", vote="step" if vote == "step" else "episode")
        same(got, 2 * group_normalise(s, "aaaa", scale="none"))


def test_gigpo_can_count_an_episode_once_however_many_steps_it_has() -> None:
    s = torch.tensor([1.0, 0, 0, 0]).double()
    arguments: dict[str, Any] = {"weight": 0.0, "scale": "none"}
    steps = gigpo(s * 0, s, "abbb", "tttt", "wxyz", **arguments)
    episodes = gigpo(s * 0, s, "abbb", "tttt", "wxyz", **arguments, vote="episode")
    same(steps, torch.tensor([0.75, -0.25, -0.25, -0.25]).double())
    same(episodes, torch.tensor([0.5, -0.5, -0.5, -0.5]).double())
    s = torch.tensor([1.0, 0, 3, 1]).double()  # the first episode of one task is not the first of another
    same(
        gigpo(s * 0, s, "abab", "ttuu", "wxyz", **arguments, vote="episode"), torch.tensor([0.5, -0.5, 1, -1]).double()
    )


@few
@given(seeds)
def test_whitening_gives_mean_zero_and_variance_one_on_the_mask(seed: int) -> None:
    rows = draw(seed)
    got = whiten(rows(lambda token: token.advantage), rows.mask_bt)[rows.mask_bt.bool()]
    assert abs(float(got.mean())) < 1e-9
    assert float(got.var()) == pytest.approx(1.0, abs=1e-6)


def test_length_adaptive_lambda_spreads_credit_over_a_share_of_the_length() -> None:
    lengths = torch.tensor([40, 100, 4000])
    lam = length_adaptive_lambda(lengths, 0.05)
    same(1.0 / (1.0 - lam), 0.05 * lengths.double())
    assert length_adaptive_lambda(torch.tensor([0, 1, 20]), 0.05).tolist() == [0.0, 0.0, 0.0]
