"""The definitions, word for word, in plain Python: episodes have turns, turns have tokens, and everything is a loop."""

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from agentbench.train.losses import Aggregation
from agentbench.train.ratios import Level, Reduction
from tests.train.episodes import Episode, Row, Token, split_rows


def chain(rewards: list[float], values: list[float], gamma: float, lam: float, last: float) -> list[float]:
    """Return A_n as the sum over m >= n of (gamma lambda)^(m - n) delta_m."""
    after = [*values[1:], last]
    deltas = [r + gamma * v_next - v for r, v_next, v in zip(rewards, after, values, strict=True)]
    count = len(deltas)
    return [sum((gamma * lam) ** (m - n) * deltas[m] for m in range(n, count)) for n in range(count)]


def token_advantages(episode: Episode, gamma: float, lam: float) -> list[float]:
    tokens = episode.tokens
    values = [token.value for token in tokens]
    return chain([token.reward for token in tokens], values, gamma, lam, episode.last_value)


def turn_advantages(episode: Episode, gamma: float, lam: float) -> list[float]:
    values = [turn.tokens[0].value for turn in episode.turns]
    return chain([turn.reward for turn in episode.turns], values, gamma, lam, episode.last_value)


def bilevel_advantages(episode: Episode, gamma: float, lam: float, high_gamma: float) -> list[float]:
    """Return advantages of tokens: each turn is an episode that ends with its turn's return."""
    ends = [turn.tokens[-1].value for turn in episode.turns]
    high = chain([turn.reward for turn in episode.turns], ends, high_gamma, lam, episode.last_value)
    advantages: list[float] = []
    for turn, advantage, value in zip(episode.turns, high, ends, strict=True):
        rewards = [*(token.reward for token in turn.tokens[:-1]), advantage + value]
        advantages += chain(rewards, [token.value for token in turn.tokens], gamma, lam, 0.0)
    return advantages


def group_advantages(scores: list[float], groups: list[str], kind: str) -> list[float]:
    advantages = []
    for n, (score, group) in enumerate(zip(scores, groups, strict=True)):
        members = [s for s, g in zip(scores, groups, strict=True) if g == group]
        others = [s for m, (s, g) in enumerate(zip(scores, groups, strict=True)) if g == group and m != n]
        if kind == "leave-one-out":
            advantages.append(score - statistics.fmean(others) if others else 0.0)
        elif not others:
            advantages.append(score / (1 + 1e-6) if kind == "std" else score)
        else:
            scale = statistics.stdev(members) + 1e-6 if kind == "std" else 1.0
            advantages.append((score - statistics.fmean(members)) / scale)
    return advantages


class Unit(NamedTuple):
    """What has one vote: a token, or a turn that is read at its first token."""

    episode: int
    token: Token
    segment: list[Token]
    """The tokens that its ratio is of."""


def units(rows: list[Row], level: Level, mode: Aggregation) -> Iterator[Unit]:
    for row in rows:
        sampled = [(token, k) for token, k in zip(row.tokens, row.turns, strict=True) if token is not None]
        for n, (token, k) in enumerate(sampled):
            if "turn" in mode and n > 0 and sampled[n - 1][1] == k:
                continue
            segments = {
                "token": [token],
                "turn": [other for other, its_turn in sampled if its_turn == k],
                "sequence": [other for other, _ in sampled],
            }
            yield Unit(row.episode, token, segments[level])


def log_ratio(segment: list[Token], reduce: Reduction) -> float:
    total = sum(token.new - token.old for token in segment)
    return total if reduce == "product" else total / len(segment)


def mean_over_votes(rows: list[Row], votes: list[tuple[int, float]], mode: Aggregation) -> float:
    """Reduce (episode, value) by the definition of the mode."""
    if mode in ("token-mean", "turn-mean"):
        return sum(value for _, value in votes) / len(votes)
    sums = {row.episode: 0.0 for row in rows}
    lengths = dict.fromkeys(sums, 0)
    for e, value in votes:
        sums[e] += value
    for row in rows:
        lengths[row.episode] += sum(token is not None for token in row.tokens)
    if mode in ("seq-mean-token-mean", "turn-sum-per-token"):
        return statistics.fmean(sums[e] / lengths[e] for e in sums)
    return statistics.fmean(sums.values())


def policy_loss(
    rows: list[Row],
    level: Level,
    reduce: Reduction,
    mode: Aggregation,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
    cap: float | None,
) -> float:
    votes = []
    for unit in units(rows, level, mode):
        rho, advantage = math.exp(log_ratio(unit.segment, reduce)), unit.token.advantage
        clipped = min(max(rho, 1 - clip_low), 1 + clip_high)
        loss = -min(advantage * rho, advantage * clipped)
        if dual_clip is not None and advantage < 0:
            loss = min(loss, -dual_clip * advantage)
        weight = 1.0 if cap is None else min(math.exp(unit.token.old - unit.token.rollout), cap)
        votes.append((unit.episode, weight * loss))
    return mean_over_votes(rows, votes, mode)


def value_loss(rows: list[Row], mode: Aggregation, clip: float) -> float:
    votes = []
    for unit in units(rows, "token", mode):
        token = unit.token
        near = token.old_value + min(max(token.value - token.old_value, -clip), clip)
        votes.append((unit.episode, max((token.value - token.target) ** 2, (near - token.target) ** 2) / 2))
    return mean_over_votes(rows, votes, mode)


def slopes(episodes: list[Episode], name: str, loss: Callable[[list[Row]], float]) -> list[float]:
    """Return the derivative of a loss by one field of each token, in order, by central differences."""
    step = 1e-5
    tokens = [token for episode in episodes for token in episode.tokens]

    def moved(token: Token, by: float) -> float:
        before = replace(token)
        setattr(token, name, getattr(token, name) + by)
        moved_loss = loss(split_rows(episodes))
        setattr(token, name, getattr(before, name))
        return moved_loss

    return [(moved(token, step) - moved(token, -step)) / (2 * step) for token in tokens]
