"""Made-up trajectories with several turns, and several sequences, per episode."""

import numpy as np

from agentbench.core.types import Reply, Trajectory, Turn


def trajectory(
    rng: np.random.Generator, turns: int, *, task: str = "t", fresh: tuple[int, ...] = (), size: int = 30
) -> Trajectory:
    """Return an episode with random ids, log-probabilities, values and rewards.

    Args:
        rng: Decides everything.
        turns: Its length.
        task: Its group.
        fresh: Turns, besides the first, that begin a new sequence.
        size: Of the vocabulary.
    """
    episode = Trajectory("fake/one@0", "train", task, 0, end="terminated", success=True)
    for k in range(turns):
        said, seen = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        reply = Reply(
            "text",
            prompt_ids=tuple(rng.integers(1, size, seen).tolist()),
            token_ids=tuple(rng.integers(1, size, said).tolist()),
            logprobs=tuple((-rng.random(said)).tolist()),
            entropies=tuple(rng.random(said).tolist()),
            values=tuple(rng.normal(size=said).tolist()),
            fresh_context=k == 0 or k in fresh,
        )
        reward = float(rng.normal())
        episode.turns.append(Turn("o", reply, "a", reward, {"r": reward}, 0.0, True, {}, 0.0, 0.0, ""))
    return episode


def rewards_of(episodes: list[Trajectory]) -> list[list[float]]:
    """Return what each turn was paid."""
    return [[turn.reward for turn in episode.turns] for episode in episodes]
