"""Small random episodes as plain lists, and the tensors that our functions take.

An episode is a list of turns, a turn a list of tokens; a turn may begin a new row (a fresh context). The tensors have
junk wherever nothing was sampled, so that reading it would show.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

JUNK = float("nan")


@dataclass
class Token:
    """What is known about one sampled token."""

    new: float
    old: float
    rollout: float
    ref: float
    value: float
    old_value: float
    advantage: float
    target: float
    reward: float = 0.0


@dataclass
class Turn:
    """One reply, and how many tokens were observed before it."""

    observed: int
    tokens: list[Token]
    reward: float
    fresh: bool


@dataclass
class Episode:
    """One attempt at the task that its group names."""

    group: str
    turns: list[Turn]
    last_value: float

    @property
    def tokens(self) -> list[Token]:
        return [token for turn in self.turns for token in turn.tokens]


@dataclass
class Row:
    """One sequence: tokens, or None for observations, with the index of their turn."""

    episode: int
    tokens: list[Token | None] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)


def draw_episodes(
    seed: int, *, episodes: int = 5, turns: int = 3, tokens: int = 4, spread: float = 0.4, rows: bool = True
) -> list[Episode]:
    """Draw episodes of up to so many turns and tokens; log-ratios have the given spread."""
    rng = np.random.default_rng(seed)

    def token(reward: float) -> Token:
        old = -1.0 + 0.3 * rng.normal()
        near = [old + spread * rng.normal() for _ in range(3)]
        value, old_value, advantage, target = (float(x) for x in rng.normal(size=4))
        return Token(near[0], old, near[1], near[2], value, old_value, advantage, target, reward)

    def turn(k: int) -> Turn:
        count, reward = int(rng.integers(1, tokens + 1)), round(float(rng.normal()), 1)
        sampled = [token(reward if j == count - 1 else 0.0) for j in range(count)]
        return Turn(int(rng.integers(0, 3)), sampled, reward, rows and k > 0 and rng.random() < 0.4)

    return [
        Episode(f"task {e % 2}", [turn(k) for k in range(int(rng.integers(1, turns + 1)))], float(rng.normal()))
        for e in range(episodes)
    ]


def split_rows(episodes: list[Episode]) -> list[Row]:
    """Cut episodes into rows where a turn has a fresh context."""
    rows = []
    for e, episode in enumerate(episodes):
        for k, turn in enumerate(episode.turns):
            if k == 0 or turn.fresh:
                rows.append(Row(e))
            rows[-1].tokens += [None] * turn.observed + list(turn.tokens)
            rows[-1].turns += [-1] * turn.observed + [k] * len(turn.tokens)
    return rows


@dataclass
class Tensors:
    """Rows as tensors, [b, t], padded at the right."""

    rows: list[Row]
    padding: int = 2

    def __post_init__(self) -> None:
        self.width = max(len(row.tokens) for row in self.rows) + self.padding
        self.turn_bt = torch.full((len(self.rows), self.width), -1)
        for b, row in enumerate(self.rows):
            self.turn_bt[b, : len(row.turns)] = torch.tensor(row.turns)
        self.mask_bt = (self.turn_bt >= 0).double()
        self.episode_b = [row.episode for row in self.rows]

    def __call__(self, read: Callable[[Token], float], junk: float = JUNK) -> Tensor:
        """Return what is read from each token, and junk elsewhere."""
        x_bt = torch.full((len(self.rows), self.width), junk, dtype=torch.float64)
        for b, row in enumerate(self.rows):
            for t, token in enumerate(row.tokens):
                if token is not None:
                    x_bt[b, t] = read(token)
        return x_bt


def per_turn(episodes: list[Episode], read: Callable[[Turn], float], junk: float = JUNK) -> Tensor:
    """Return what is read from each turn, [e, k]."""
    width = max(len(episode.turns) for episode in episodes)
    rows = [[read(turn) for turn in episode.turns] for episode in episodes]
    return torch.tensor([row + [junk] * (width - len(row)) for row in rows], dtype=torch.float64)


def whole(episodes: list[Episode]) -> Tensors:
    """Return each episode as one row, however many contexts it had."""
    rows = []
    for e, episode in enumerate(episodes):
        rows.append(Row(e))
        for k, turn in enumerate(episode.turns):
            rows[-1].tokens += [None] * turn.observed + list(turn.tokens)
            rows[-1].turns += [-1] * turn.observed + [k] * len(turn.tokens)
    return Tensors(rows)
