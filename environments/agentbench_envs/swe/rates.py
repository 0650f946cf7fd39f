"""How far episodes came: the three rates of G-RA (arXiv 2508.10548)."""

from collections.abc import Iterable
from typing import NamedTuple

from agentbench.core.types import Trajectory


class Rates(NamedTuple):
    """Shares of all episodes; an episode that never submits counts in none."""

    completion: float
    """Something was handed in."""
    modification: float
    """It was handed in changed."""
    resolution: float
    """Every named test succeeds."""


def rates(trajectories: Iterable[Trajectory]) -> Rates:
    """Compute the rates of recorded episodes.

    Raises:
        ValueError: There is no episode.
    """
    ends = [trajectory.turns[-1].terms if trajectory.turns else {} for trajectory in trajectories]
    if not ends:
        raise ValueError("no episode, no rates")
    return Rates(*(sum(terms.get(name, 0.0) for terms in ends) / len(ends) for name in _NAMES))


_NAMES = ("submitted", "modified", "resolved")
