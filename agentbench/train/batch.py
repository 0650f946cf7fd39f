"""From trajectories to tensors, and the glossary of their axes.

    b  a row: one *sequence*, a maximal run of turns in one context; an episode has one row, or several where its
       context was begun anew (window, summary, stripped thinking)
    t  a position in a row; position t holds the token that the model chose after seeing positions < t
    e  an episode            k  a turn of an episode            j  a sampled token of an episode, all rows in order

`x_bt[b, t]` belongs to the token at t: its log-probability, its entropy, and the value of the state *before* it (read
from the hidden state at t - 1). Only sampled tokens carry anything: the mask is 1 there, 0 on observations and padding.
Credit is computed per episode, on [e, k] or [e, j], and scattered to rows; where an episode has several rows, it is
one episode, with one reward, one vote in every mean and one place in its group.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from agentbench.core.types import Trajectory, Turn
from agentbench.train.ratios import Level, turn_ends, turn_starts


class Forward(NamedTuple):
    """What the present weights say about the rows of a batch."""

    logprobs_bt: Tensor
    entropies_bt: Tensor
    values_bt: Tensor | None
    ref_logprobs_bt: Tensor | None


class Credit(NamedTuple):
    """What an algorithm makes of rewards: the targets of actor and critic."""

    advantages_bt: Tensor
    returns_bt: Tensor | None = None
    """Targets of the critic, where `value_mask_bt` is not 0; None without one."""
    value_mask_bt: Tensor | None = None
    """Where the critic is trained: on every sampled token, or at one token of each turn."""
    weights_bt: Tensor | None = None
    """Importance of each sampled token, where it is not 1: stale samples only."""

    def rows(self, index: Tensor, width: int) -> "Credit":
        """Return the credit of some rows, cut to a width."""
        return Credit(*(None if x is None else x[index][:, :width] for x in self))  # type: ignore[arg-type]


class Algorithm(Protocol):
    """The mathematics of an algorithm; everything else is the loop's."""

    @property
    def name(self) -> str:
        """As `--algorithm` takes it."""
        ...

    @property
    def group_size(self) -> int:
        """Episodes of one task that are compared with each other."""
        ...

    @property
    def critic(self) -> str:
        """`none`, `token` or `turn`."""
        ...

    @property
    def demonstrates(self) -> bool:
        """The tokens were not sampled by the policy: a teacher plays."""
        ...

    @property
    def shaping_gamma(self) -> float | None:
        """The discount per turn, which shaping by a potential needs; None where there is no such thing."""
        ...

    @property
    def unit(self) -> Level:
        """What its ratio is of; the importance of a stale sample is that of the same unit."""
        ...

    def credit(self, batch: "Batch") -> Credit:
        """Turn rewards into advantages and the critic's targets."""
        ...

    def loss(self, now: Forward, batch: "Batch", credit: Credit, denominator: "Denominator") -> "Loss":
        """Return what is minimised, for some rows of a batch."""
        ...

    def denominator(self, batch: "Batch", credit: Credit) -> "Denominator":
        """Return what the losses of all micro-batches of these rows are divided by."""
        ...

    def choices(self) -> tuple[str, ...]:
        """Say in words what the fields decide, biases included; every report prints it."""
        ...


class Denominator(NamedTuple):
    """What the losses of a minibatch are divided by, so that splitting it into micro-batches changes nothing."""

    policy_b: Tensor
    """Of each row, see `losses.denominators`."""
    value: float
    """Positions at which the critic is trained."""

    def rows(self, index: Tensor) -> "Denominator":
        """Return the denominators of some rows."""
        return Denominator(self.policy_b[index], self.value)


class Loss(NamedTuple):
    """A differentiable scalar and what to log."""

    total: Tensor
    metrics: dict[str, float]
    """Losses, which add up over micro-batches, and means over votes."""
    votes: float
    """How many tokens or turns those means are over."""


class TokenIndex(NamedTuple):
    """Where the sampled tokens of each episode stand."""

    row_ej: Tensor
    position_ej: Tensor
    turn_ej: Tensor
    """-1 on padding."""
    mask_ej: Tensor


@dataclass(frozen=True)
class Batch:
    """Episodes as the trainer sees them. See the top of this file for the axes."""

    token_ids_bt: Tensor
    mask_bt: Tensor
    """1.0 on sampled tokens."""
    turn_bt: Tensor
    """The episode's turn on sampled tokens, -1 elsewhere."""
    logprobs_bt: Tensor
    """Of the sampler, at its temperature."""
    values_bt: Tensor | None
    """Of the critic, as the sampler read it."""
    penalties_bt: Tensor
    """What is taken from the reward at each token: the coefficient times the KL to a reference; else 0."""
    length_b: Tensor
    episode_b: Tensor
    rewards_ek: Tensor
    turn_mask_ek: Tensor
    last_value_e: Tensor
    """Bootstrap at a cut-off; 0 where nothing follows."""
    group_e: tuple[Hashable, ...]
    version_ek: Tensor

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return len(self.group_e)

    def rows(self, index: Tensor) -> "Batch":
        """Return a batch of some rows; what belongs to episodes stays whole."""
        width = int(self.length_b[index].max())
        picked = {name: getattr(self, name)[index][:, :width] for name in _ROW_FIELDS}
        values = None if self.values_bt is None else self.values_bt[index][:, :width]
        return replace(self, **picked, values_bt=values, length_b=self.length_b[index], episode_b=self.episode_b[index])

    def of_episodes(self, chosen_e: Tensor) -> Tensor:
        """Return the indices of the rows of some episodes."""
        return torch.isin(self.episode_b, chosen_e).nonzero()[:, 0]

    @cached_property
    def tokens(self) -> TokenIndex:
        """The sampled tokens of each episode, in order."""
        rows, positions = self.mask_bt.nonzero(as_tuple=True)
        owners = self.episode_b[rows]
        counts = torch.bincount(owners, minlength=self.episodes)
        order = torch.argsort(owners, stable=True)
        first = counts.cumsum(0) - counts
        owner = owners[order]
        column = torch.arange(len(owner)) - first[owner]
        shape = (self.episodes, int(counts.max()) if len(owner) else 0)
        row_ej, position_ej = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        turn_ej, mask_ej = torch.full(shape, -1), torch.zeros(shape, dtype=self.mask_bt.dtype)
        row_ej[owner, column] = rows[order]
        position_ej[owner, column] = positions[order]
        turn_ej[owner, column] = self.turn_bt[rows[order], positions[order]]
        mask_ej[owner, column] = 1.0
        return TokenIndex(row_ej, position_ej, turn_ej, mask_ej)

    def gather(self, x_bt: Tensor) -> Tensor:
        """Collect what belongs to sampled tokens into [e, j]; 0 on padding."""
        index = self.tokens
        return x_bt[index.row_ej, index.position_ej] * index.mask_ej.to(x_bt.dtype)

    def scatter(self, x_ej: Tensor) -> Tensor:
        """Put what belongs to sampled tokens, [e, j], back into rows; 0 elsewhere."""
        index = self.tokens
        chosen = index.mask_ej > 0
        x_bt = torch.zeros(self.mask_bt.shape, dtype=x_ej.dtype)
        x_bt[index.row_ej[chosen], index.position_ej[chosen]] = x_ej[chosen]
        return x_bt

    def spread(self, x_ek: Tensor) -> Tensor:
        """Copy what belongs to turns, [e, k], to all tokens of the turn in rows; 0 elsewhere."""
        turn_bt = self.turn_bt.clamp(min=0)
        return x_ek[self.episode_b[:, None], turn_bt] * self.mask_bt.to(x_ek.dtype)

    def turn_sums(self, x_bt: Tensor) -> Tensor:
        """Add up what belongs to the tokens of each turn: [e, k]."""
        sums = torch.zeros(self.rewards_ek.shape, dtype=x_bt.dtype)
        chosen = self.mask_bt > 0
        owner = self.episode_b[:, None].expand_as(self.turn_bt)[chosen]
        return sums.index_put((owner, self.turn_bt[chosen]), x_bt[chosen], accumulate=True)

    def turn_edge(self, edge: Literal["first", "last"]) -> Tensor:
        """Return a mask in rows of one token per turn."""
        found = turn_starts(self.turn_bt) if edge == "first" else turn_ends(self.turn_bt)
        return found.to(self.mask_bt.dtype)


_ROW_FIELDS = ("token_ids_bt", "mask_bt", "turn_bt", "logprobs_bt", "penalties_bt")


def make_batch(
    trajectories: Sequence[Trajectory], rewards: Sequence[Sequence[float]], groups: Sequence[Hashable]
) -> Batch:
    """Build a batch from recorded episodes. Tokens are taken as they were sampled; no text is tokenised.

    Args:
        trajectories: Episodes with token ids and log-probabilities; each has at least one turn.
        rewards: For each episode, one reward per turn (see `weigh`).
        groups: For each episode, the label of its group.

    Raises:
        ValueError: An episode has no turn, or a reply without its sampled tokens.
    """
    sequences = [row for e, trajectory in enumerate(trajectories) for row in _sequences(trajectory, e)]
    turns = max(len(trajectory.turns) for trajectory in trajectories)
    rewards_ek, turn_mask_ek = _filled(rewards, turns, 0.0), _filled([[1.0] * len(r) for r in rewards], turns, 0.0)
    versions = [[float(turn.reply.policy_version) for turn in trajectory.turns] for trajectory in trajectories]
    width = max(len(row.token_ids) for row in sequences)
    has_values = all(row.values is not None for row in sequences)
    mask_bt = _filled([row.mask for row in sequences], width, 0.0)
    return Batch(
        token_ids_bt=_filled([row.token_ids for row in sequences], width, 0).long(),
        mask_bt=mask_bt,
        turn_bt=_filled([row.turns for row in sequences], width, -1).long(),
        logprobs_bt=_filled([row.logprobs for row in sequences], width, 0.0),
        values_bt=_filled([row.values or [] for row in sequences], width, 0.0) if has_values else None,
        penalties_bt=torch.zeros_like(mask_bt),
        length_b=torch.tensor([len(row.token_ids) for row in sequences]),
        episode_b=torch.tensor([row.episode for row in sequences]),
        rewards_ek=rewards_ek,
        turn_mask_ek=turn_mask_ek,
        last_value_e=torch.tensor([trajectory.last_value or 0.0 for trajectory in trajectories]),
        group_e=tuple(groups),
        version_ek=_filled(versions, turns, -1.0).long(),
    )


@dataclass
class _Sequence:
    """One row in the making."""

    episode: int
    token_ids: list[int]
    mask: list[float]
    turns: list[int]
    logprobs: list[float]
    values: list[float] | None

    def observe(self, ids: Sequence[int]) -> None:
        self._extend(ids, [0.0] * len(ids), [-1] * len(ids), [0.0] * len(ids), [0.0] * len(ids))

    def answer(self, k: int, turn: Turn) -> None:
        reply = turn.reply
        count = len(reply.token_ids)
        if not count or len(reply.logprobs) != count:
            raise ValueError(f"turn {k} has {count} token ids and {len(reply.logprobs)} log-probabilities")
        self._extend(reply.token_ids, [1.0] * count, [k] * count, reply.logprobs, reply.values)

    def _extend(
        self,
        ids: Sequence[int],
        mask: list[float],
        turns: list[int],
        logprobs: Sequence[float],
        values: Sequence[float] | None,
    ) -> None:
        self.token_ids += ids
        self.mask += mask
        self.turns += turns
        self.logprobs += logprobs
        self.values = None if values is None or self.values is None else [*self.values, *values]


def _sequences(trajectory: Trajectory, episode: int) -> Iterator[_Sequence]:
    """Cut an episode where its context began anew."""
    if not trajectory.turns:
        raise ValueError("an episode without turns cannot be trained on")
    row = None
    for k, turn in enumerate(trajectory.turns):
        if row is None or turn.reply.fresh_context:
            if row is not None:
                yield row
            row = _Sequence(episode, [], [], [], [], [])
        row.observe(turn.reply.prompt_ids)
        row.answer(k, turn)
    assert row is not None
    yield row


def _filled(rows: Sequence[Sequence[float]], width: int, padding: float) -> Tensor:
    filled = torch.full((len(rows), width), float(padding))
    for b, row in enumerate(rows):
        filled[b, : len(row)] = torch.tensor(row, dtype=torch.float32)
    return filled
