"""Advantages, losses and gradients equal the definitions on random episodes of several turns and several rows."""

from itertools import product
from typing import get_args

import pytest
import torch

from agentbench.train import losses
from agentbench.train.advantages import bilevel_gae, gae, group_normalise, leave_one_out, turn_gae
from agentbench.train.losses import Aggregation, aggregate, denominators, truncated_importance_weights
from agentbench.train.ratios import Level, Reduction, log_ratio
from tests.train import reference
from tests.train.episodes import Episode, Row, Tensors, Token, draw_episodes, per_turn, split_rows, whole

SEEDS = (0, 1, 2)
MODES: tuple[Aggregation, ...] = get_args(Aggregation)
RATIOS: list[tuple[Level, Reduction]] = [*product(get_args(Level)[1:], get_args(Reduction)), ("token", "product")]


def last_values(episodes: list[Episode]) -> torch.Tensor:
    return torch.tensor([episode.last_value for episode in episodes], dtype=torch.float64)


def close(got: torch.Tensor, want: list[float], tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", SEEDS)
def test_gae_is_the_discounted_sum_of_the_errors_of_the_critic(seed: int) -> None:
    episodes = draw_episodes(seed)
    rows = whole(episodes)
    values = rows(lambda token: token.value)
    got = gae(
        rows(lambda token: token.reward), values, rows.mask_bt, gamma=0.9, lam=0.8, last_values_b=last_values(episodes)
    )
    want = [a for episode in episodes for a in reference.token_advantages(episode, 0.9, 0.8)]
    sampled = rows.mask_bt.bool()
    close(got.advantages[sampled], want)
    torch.testing.assert_close((got.returns - got.advantages)[sampled], values[sampled])
    assert not got.advantages[~sampled].any() and not got.returns[~sampled].any()


@pytest.mark.parametrize("seed", SEEDS)
def test_turn_gae_is_the_same_over_turns(seed: int) -> None:
    episodes = draw_episodes(seed)
    rewards = per_turn(episodes, lambda turn: turn.reward)
    values = per_turn(episodes, lambda turn: turn.tokens[0].value)
    there = per_turn(episodes, lambda turn: 1.0, junk=0.0)
    got = turn_gae(rewards, values, there, gamma=0.9, lam=0.8, last_values_b=last_values(episodes))
    want = [a for episode in episodes for a in reference.turn_advantages(episode, 0.9, 0.8)]
    close(got.advantages[there.bool()], want)


@pytest.mark.parametrize("seed", SEEDS)
def test_bilevel_gae_ends_each_turn_with_the_return_of_the_turn(seed: int) -> None:
    episodes = draw_episodes(seed)
    rows = whole(episodes)
    got = bilevel_gae(
        rows(lambda token: token.reward),
        rows(lambda token: token.value),
        rows.mask_bt,
        rows.turn_bt,
        gamma=0.9,
        lam=0.8,
        high_gamma=0.7,
        last_values_b=last_values(episodes),
    )
    want = [a for episode in episodes for a in reference.bilevel_advantages(episode, 0.9, 0.8, 0.7)]
    close(got.advantages[rows.mask_bt.bool()], want)


@pytest.mark.parametrize("kind", ["std", "none", "leave-one-out"])
@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_compared_episode_by_episode(seed: int, kind: str) -> None:
    episodes = [*draw_episodes(seed), Episode("alone", draw_episodes(seed + 9)[0].turns, 0.0)]
    scores = [sum(turn.reward for turn in episode.turns) for episode in episodes]
    groups = [episode.group for episode in episodes]
    tensor = torch.tensor(scores, dtype=torch.float64)
    if kind == "leave-one-out":
        got = leave_one_out(tensor, groups)
    else:
        got = group_normalise(tensor, groups, scale="std" if kind == "std" else "none")
    close(got, reference.group_advantages(scores, groups, kind), 1e-9)


def new_logprobs(rows: Tensors) -> torch.Tensor:
    return rows(lambda token: token.new).requires_grad_()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("level", "reduce"), RATIOS)
@pytest.mark.parametrize("stale", [False, True])
def test_policy_loss_and_gradient_follow_the_definition(
    level: Level, reduce: Reduction, mode: Aggregation, stale: bool
) -> None:
    episodes = draw_episodes(len(mode) + 7 * stale)
    dual_clip, cap = (1.5, 1.2) if stale else (None, None)
    rows = Tensors(split_rows(episodes))
    assert len(rows.rows) > len(episodes), "some episode has several rows"
    new, old = new_logprobs(rows), rows(lambda token: token.old)
    weights = None
    if cap is not None:
        rollout = rows(lambda token: token.rollout)
        weights = truncated_importance_weights(old, rollout, rows.mask_bt, level="token", cap=cap)
    got = losses.policy_loss(
        log_ratio(new, old, rows.mask_bt, rows.turn_bt, level=level, reduce=reduce),
        rows(lambda token: token.advantage),
        rows.mask_bt,
        clip_low=0.2,
        clip_high=0.3,
        dual_clip=dual_clip,
        aggregate=mode,
        turn_bt=rows.turn_bt,
        episode_b=rows.episode_b,
        weights_bt=weights,
    )
    torch.autograd.backward(got.loss)

    def definition(plain: list[Row]) -> float:
        return reference.policy_loss(
            plain, level, reduce, mode, clip_low=0.2, clip_high=0.3, dual_clip=dual_clip, cap=cap
        )

    assert float(got.loss.detach()) == pytest.approx(definition(rows.rows), rel=1e-10)
    assert new.grad is not None
    close(new.grad[rows.mask_bt.bool()], reference.slopes(episodes, "new", definition), 1e-7)
    assert not new.grad[~rows.mask_bt.bool()].any()


@pytest.mark.parametrize("mode", MODES)
def test_value_loss_and_gradient_follow_the_definition(mode: Aggregation) -> None:
    episodes = draw_episodes(len(mode))
    rows = Tensors(split_rows(episodes))
    values = rows(lambda token: token.value).requires_grad_()
    loss = losses.value_loss(
        values,
        rows(lambda token: token.old_value),
        rows(lambda token: token.target),
        rows.mask_bt,
        clip=0.3,
        aggregate=mode,
        turn_bt=rows.turn_bt,
        episode_b=rows.episode_b,
    )
    torch.autograd.backward(loss)

    def definition(plain: list[Row]) -> float:
        return reference.value_loss(plain, mode, 0.3)

    assert float(loss.detach()) == pytest.approx(definition(rows.rows), rel=1e-10)
    assert values.grad is not None
    close(values.grad[rows.mask_bt.bool()], reference.slopes(episodes, "value", definition), 1e-7)


def read_new(token: Token) -> float:
    return token.new


@pytest.mark.parametrize("mode", MODES)
def test_cutting_an_episode_into_rows_changes_no_mean(mode: Aggregation) -> None:
    episodes = draw_episodes(3, turns=4)
    one, several = whole(episodes), Tensors(split_rows(episodes))
    assert len(several.rows) > len(one.rows)
    want = aggregate(one(read_new), one.mask_bt, mode, one.turn_bt)
    got = aggregate(several(read_new), several.mask_bt, mode, several.turn_bt, several.episode_b)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("mode", MODES)
def test_micro_batches_add_up_even_when_they_cut_an_episode_in_two(mode: Aggregation) -> None:
    rows = Tensors(split_rows(draw_episodes(3, turns=4)))
    x, mask, turn = rows(read_new), rows.mask_bt, rows.turn_bt
    under = denominators(mask, mode, turn, rows.episode_b)
    parts = [
        aggregate(x[b : b + 1], mask[b : b + 1], mode, turn[b : b + 1], rows.episode_b[b : b + 1], under[b : b + 1])
        for b in range(len(mask))
    ]
    torch.testing.assert_close(torch.stack(parts).sum(), aggregate(x, mask, mode, turn, rows.episode_b))
