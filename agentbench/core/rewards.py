r"""What a reward is made of, and how stored rewards are weighed again.

An environment reports raw *terms* with every step (`info["terms"]`); its `RewardSpec` says how they add up. Because raw
terms are recorded, another specification can be applied to old trajectories: dense, sparse or gated, without playing
them again. `Step.reward` is always the environment's native, ungated weighing.

    r_k = open * sum_i w_i * x_ik   over the terms that are not gates,   plus   w_g * x_gk   of each gate's own term,

where `open` is 1 if every gate's term, summed over the episode, reaches its threshold and 0 otherwise: the gated reward
accumulation of G-RA (arXiv 2508.10548), where step rewards count only for an episode whose outcome deserves them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agentbench.core.errors import UsageError

if TYPE_CHECKING:
    from agentbench.core.types import Trajectory

POTENTIAL = "potential"
"""The name of the term that stands for potential-based shaping, gamma * Phi(s') - Phi(s) (Ng et al. 1999)."""

SUCCESS = "success"
"""The name of the term that is 1 at the last turn of a solved task; it needs no term of the environment's own."""


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """One component of the reward."""

    name: str
    """Its key in `info["terms"]`, or `"potential"` for shaping by the recorded potential."""
    weight: float = 1.0
    """Reward per unit of the raw term."""
    when: Literal["turn", "final"] = "turn"
    """`turn`: paid whenever the term occurs. `final`: only what the last turn reports counts."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on the episode's sum of one raw term; the other terms are paid only if it holds.

    Raises:
        UsageError: The term is the potential.
    """

    term: str
    threshold: float
    strict: bool = False
    """True: the sum must exceed the threshold; False: reaching it is enough."""

    def __post_init__(self) -> None:
        if self.term == POTENTIAL:
            raise UsageError(f"{POTENTIAL} is shaping and tells of no outcome: gate on a term, or on {SUCCESS}")

    def opens(self, total: float) -> bool:
        """Tell whether this sum of the term passes."""
        return total > self.threshold if self.strict else total >= self.threshold


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """How raw terms become a reward."""

    terms: tuple[RewardTerm, ...] = field(default_factory=tuple)
    gates: tuple[Gate, ...] = field(default_factory=tuple)


def weigh(trajectory: "Trajectory", spec: RewardSpec, gamma: float) -> list[float]:
    """Weigh the recorded terms of an episode by another specification.

    Args:
        trajectory: An episode with its raw terms and potentials.
        spec: Terms and gates.
        gamma: The discount per turn; only the potential uses it.

    Returns:
        rewards_k, one per turn, each paid at the turn where it was earned.
    """
    gated = {gate.term for gate in spec.gates}
    is_open = all(gate.opens(sum(_raw(trajectory, RewardTerm(gate.term), gamma))) for gate in spec.gates)
    rewards = [0.0] * len(trajectory.turns)
    for term in spec.terms:
        if is_open or term.name in gated:
            for k, value in enumerate(_raw(trajectory, term, gamma)):
                rewards[k] += term.weight * value
    return rewards


def _raw(trajectory: "Trajectory", term: RewardTerm, gamma: float) -> list[float]:
    if term.name == POTENTIAL:
        return shaping([turn.potential for turn in trajectory.turns], _last_potential(trajectory), gamma)
    if term.name == SUCCESS:
        return [0.0] * (len(trajectory.turns) - 1) + [float(bool(trajectory.success))] * bool(trajectory.turns)
    values = [turn.terms.get(term.name, 0.0) for turn in trajectory.turns]
    if term.when == "final" and values:
        values[:-1] = [0.0] * (len(values) - 1)
    return values


def shaping(potentials: Sequence[float], last: float, gamma: float) -> list[float]:
    """Return gamma * Phi(s_{k+1}) - Phi(s_k) for each turn k; `last` is Phi after the final turn."""
    after = [*potentials, last][1:]
    return [gamma * there - here for here, there in zip(potentials, after, strict=True)]


def _last_potential(trajectory: "Trajectory") -> float:
    # Phi must be 0 wherever no value follows, or shaping would change which policy is best; only an episode
    # that is bootstrapped goes on in the critic's estimate.
    return 0.0 if trajectory.last_value is None else trajectory.final_potential
