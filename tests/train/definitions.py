"""The algorithms, word for word, in plain Python: episodes have turns, turns have tokens, and everything is a loop.

An advantage is a float, a loss a scalar in float64 that autograd follows back to one leaf per token.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from agentbench.core.types import Trajectory
from agentbench.train.algorithms import GRPO, RLOO, TokenPPO, TurnPPO
from agentbench.train.algorithms.surrogate import Surrogate
from tests.train.reference import chain, group_advantages

Algorithm = TurnPPO | TokenPPO | GRPO | RLOO


def rounded(x: float) -> float:
    """As float32 has it, so that tensors of either precision hold the same number."""
    return float(np.float32(x))


def leaf(x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


@dataclass
class Token:
    """What is known about one sampled token, and what an algorithm makes of it."""

    identity: int
    old: float
    sampled: float
    old_value: float
    penalty: float
    new: Tensor
    value: Tensor
    advantage: float = 0.0
    target: float = 0.0
    taught: bool = False


@dataclass
class Turn:
    reward: float
    prompt: tuple[int, ...]
    fresh: bool
    tokens: list[Token]

    @property
    def paid(self) -> float:
        return self.reward - sum(token.penalty for token in self.tokens)


@dataclass
class Episode:
    group: str
    last_value: float
    turns: list[Turn] = field(default_factory=list)

    @property
    def tokens(self) -> list[Token]:
        return [token for turn in self.turns for token in turn.tokens]

    @property
    def rows(self) -> list[list[tuple[int, int, Token | None]]]:
        """The sequences: (id, turn or -1, token or None) at every position."""
        rows: list[list[tuple[int, int, Token | None]]] = []
        for k, turn in enumerate(self.turns):
            if k == 0 or turn.fresh:
                rows.append([])
            rows[-1] += [(index, -1, None) for index in turn.prompt]
            rows[-1] += [(token.identity, k, token) for token in turn.tokens]
        return rows


def read(trajectory: Trajectory, rng: np.random.Generator, *, stale: bool, penalised: bool) -> Episode:
    """Write an episode down in plain numbers; what is not recorded is drawn."""
    episode = Episode(trajectory.task, rounded(trajectory.last_value or 0.0))
    for turn in trajectory.turns:
        reply = turn.reply
        assert reply.values is not None
        tokens = []
        for identity, logprob, value in zip(reply.token_ids, reply.logprobs, reply.values, strict=True):
            sampled = rounded(logprob)
            old = sampled + 0.3 * rng.normal() if stale else sampled
            penalty = 0.1 * rng.normal() if penalised else 0.0
            new, now = leaf(old + 0.3 * rng.normal()), leaf(rounded(value) + rng.normal())
            tokens.append(Token(identity, old, sampled, rounded(value), penalty, new, now))
        episode.turns.append(Turn(rounded(turn.reward), reply.prompt_ids, reply.fresh_context, tokens))
    return episode


def assign(algorithm: Algorithm, episodes: list[Episode]) -> None:
    """Give every token its advantage, and the critic its targets."""
    if isinstance(algorithm, TurnPPO):
        _by_turn(algorithm, episodes)
    elif isinstance(algorithm, TokenPPO):
        _by_token(algorithm, episodes)
    else:
        _by_group(algorithm, episodes)


def _by_turn(algorithm: TurnPPO, episodes: list[Episode]) -> None:
    votes: list[list[Token]] = []
    for episode in episodes:
        values = [_state(turn, algorithm.value_at) for turn in episode.turns]
        paid, last, gamma = [turn.paid for turn in episode.turns], episode.last_value, algorithm.gamma
        advantages = chain(paid, values, gamma, algorithm.lam, last)
        critic = algorithm.lam if algorithm.lam_critic is None else algorithm.lam_critic
        targets = chain(paid, values, gamma, critic, last)
        for turn, value, advantage, target in zip(episode.turns, values, advantages, targets, strict=True):
            for j, token in enumerate(turn.tokens):
                token.advantage, token.target = advantage, target + value
                place = {"first": 0, "last": len(turn.tokens) - 1, "mean": j}[algorithm.value_at]
                token.taught = j == place
            votes.append(turn.tokens)
    if algorithm.whiten == "token":
        votes = [[token] for tokens in votes for token in tokens]
    if algorithm.whiten != "none":
        _whiten(votes)


def _state(turn: Turn, value_at: str) -> float:
    values = [token.old_value for token in turn.tokens]
    return {"first": values[0], "last": values[-1], "mean": statistics.fmean(values)}[value_at]


def _by_token(algorithm: TokenPPO, episodes: list[Episode]) -> None:
    for episode in episodes:
        lam = algorithm.lam
        if algorithm.adaptive_alpha is not None:
            lam = min(max(1 - 1 / (algorithm.adaptive_alpha * len(episode.tokens)), 0.0), 1.0)
        critic = lam if algorithm.lam_critic is None else algorithm.lam_critic
        estimate = _bilevel if algorithm.credit_mode == "bilevel" else _flat
        advantages, targets = estimate(algorithm, episode, lam), estimate(algorithm, episode, critic)
        for token, advantage, target in zip(episode.tokens, advantages, targets, strict=True):
            token.advantage, token.target, token.taught = advantage, target + token.old_value, True
    if algorithm.whiten == "token":
        _whiten([[token] for episode in episodes for token in episode.tokens])


def _paid(turn: Turn) -> list[float]:
    """The reward stands at the last token of its turn; penalties stand where they arose."""
    paid = [-token.penalty for token in turn.tokens]
    paid[-1] += turn.reward
    return paid


def _flat(algorithm: TokenPPO, episode: Episode, lam: float) -> list[float]:
    paid = [reward for turn in episode.turns for reward in _paid(turn)]
    return chain(paid, [token.old_value for token in episode.tokens], algorithm.gamma, lam, episode.last_value)


def _bilevel(algorithm: TokenPPO, episode: Episode, lam: float) -> list[float]:
    """First over turns, by what is paid at their last tokens; then inside each turn, which ends with its return."""
    ends = [turn.tokens[-1].old_value for turn in episode.turns]
    high = chain([_paid(turn)[-1] for turn in episode.turns], ends, algorithm.high_gamma, lam, episode.last_value)
    advantages: list[float] = []
    for turn, advantage, value in zip(episode.turns, high, ends, strict=True):
        rewards = [*_paid(turn)[:-1], advantage + value]
        advantages += chain(rewards, [token.old_value for token in turn.tokens], algorithm.gamma, lam, 0.0)
    return advantages


def _by_group(algorithm: GRPO | RLOO, episodes: list[Episode]) -> None:
    scores = [sum(turn.paid for turn in episode.turns) for episode in episodes]
    groups = [episode.group for episode in episodes]
    kind = algorithm.scale if isinstance(algorithm, GRPO) else "leave-one-out"
    for episode, advantage in zip(episodes, group_advantages(scores, groups, kind), strict=True):
        for token in episode.tokens:
            token.advantage = advantage if groups.count(episode.group) > 1 else 0.0


def _whiten(votes: list[list[Token]]) -> None:
    """Each list is one vote; its tokens share their advantage."""
    values = [tokens[0].advantage for tokens in votes]
    mean, variance = statistics.fmean(values), statistics.variance(values)
    for tokens in votes:
        for token in tokens:
            token.advantage = (token.advantage - mean) / (variance + 1e-8) ** 0.5


def actor_loss(surrogate: Surrogate, episodes: list[Episode], cap: float | None) -> Tensor:
    """The clipped loss; with a cap, weighed by how far the sampler was from the policy that started the update."""
    votes: list[tuple[Episode, Tensor]] = []
    for episode in episodes:
        for turn in episode.turns:
            for j, token in enumerate(turn.tokens):
                if j > 0 and "turn" in surrogate.reduction:
                    continue
                segment = {"token": [token], "turn": turn.tokens, "sequence": episode.tokens}[surrogate.level]
                votes.append((episode, _clipped(surrogate, segment, token.advantage) * _weight(segment, cap)))
    return _mean(surrogate.reduction, episodes, votes)


def _clipped(surrogate: Surrogate, segment: Sequence[Token], advantage: float) -> Tensor:
    total = sum((token.new - token.old for token in segment), torch.zeros((), dtype=torch.float64))
    rho = torch.exp(total / len(segment) if surrogate.reduce == "geometric" else total)
    inside = 1 - surrogate.clip_low <= rho.item() <= 1 + surrogate.clip_high
    edge = min(max(rho.item(), 1 - surrogate.clip_low), 1 + surrogate.clip_high)
    loss = -advantage * rho
    if not inside and -advantage * edge > loss.item():
        loss = torch.tensor(-advantage * edge, dtype=torch.float64)
    if surrogate.dual_clip is not None and advantage < 0 and loss.item() > -surrogate.dual_clip * advantage:
        loss = torch.tensor(-surrogate.dual_clip * advantage, dtype=torch.float64)
    return loss


def _weight(segment: Sequence[Token], cap: float | None) -> float:
    if cap is None:
        return 1.0
    return min(float(np.exp(sum(token.old - token.sampled for token in segment))), cap)


def _mean(reduction: str, episodes: list[Episode], votes: list[tuple[Episode, Tensor]]) -> Tensor:
    nothing = torch.zeros((), dtype=torch.float64)
    if reduction in ("token-mean", "turn-mean"):
        return sum((value for _, value in votes), nothing) / len(votes)
    total = nothing
    for episode in episodes:
        own = sum((value for owner, value in votes if owner is episode), nothing)
        each = len(episode.tokens) if reduction in ("seq-mean-token-mean", "turn-sum-per-token") else 1
        total = total + own / each
    return total / len(episodes)


def critic_loss(episodes: list[Episode], clip: float | None) -> Tensor:
    errors = []
    for token in (token for episode in episodes for token in episode.tokens if token.taught):
        error = (token.value - token.target) ** 2
        if clip is not None:
            near = token.old_value + (token.value - token.old_value).clamp(-clip, clip)
            error = torch.maximum(error, (near - token.target) ** 2)
        errors.append(error / 2)
    return torch.stack(errors).mean()


def loss(algorithm: Algorithm, episodes: list[Episode], cap: float | None) -> Tensor:
    """What the algorithm minimises."""
    total = actor_loss(algorithm.surrogate, episodes, cap)
    if isinstance(algorithm, TurnPPO | TokenPPO):
        total = total + algorithm.value_coef * critic_loss(episodes, algorithm.value_clip)
    return total


def tensor(episodes: list[Episode], what: Callable[[Token], float], elsewhere: float = 0.0) -> Tensor:
    """Lay tokens out in rows, [b, t]."""
    rows = [row for episode in episodes for row in episode.rows]
    x_bt = torch.full((len(rows), max(map(len, rows))), elsewhere, dtype=torch.float64)
    for b, row in enumerate(rows):
        for t, (_, _, token) in enumerate(row):
            if token is not None:
                x_bt[b, t] = what(token)
    return x_bt
