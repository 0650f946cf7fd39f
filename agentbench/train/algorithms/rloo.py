r"""RLOO: REINFORCE with the other episodes of the group as the baseline (arXiv 2402.14740).

    A_i = s_i - mean of the other scores of the group  =  n / (n - 1) (s_i - mean of the group)

An unbiased baseline without a critic: what episode i is compared with does not depend on it. The paper takes one step
on fresh samples; here the usual clipped ratio keeps several minibatches honest, and equals the paper's gradient at the
first.
`ratio = "sequence"` takes the product over the whole episode, as TRL does; it saturates over many turns.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from agentbench.core.errors import UsageError
from agentbench.train.advantages import leave_one_out
from agentbench.train.algorithms.surrogate import Surrogate, denominators, scores, to_tokens
from agentbench.train.batch import Batch, Credit, Denominator, Forward, Loss
from agentbench.train.losses import Aggregation
from agentbench.train.ratios import Level


@dataclass(frozen=True)
class RLOO:
    """REINFORCE, leave one out."""

    name: ClassVar[str] = "rloo"
    critic: ClassVar[str] = "none"
    demonstrates: ClassVar[bool] = False
    shaping_gamma: ClassVar[float | None] = 1.0

    group_size: int = 8
    ratio: Literal["token", "turn", "sequence"] = "token"
    """Of what the ratio is taken; turns and sequences by their product."""
    reduction: Aggregation = "token-mean"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None

    def __post_init__(self) -> None:
        _ = self.surrogate
        if self.group_size < 2:
            raise UsageError(
                f"rloo compares the episodes of a group: group_size must be at least 2, not {self.group_size}"
            )

    @property
    def surrogate(self) -> Surrogate:
        """The actor's loss."""
        return Surrogate(self.ratio, "product", self.reduction, self.clip_low, self.clip_high, self.dual_clip)

    @property
    def unit(self) -> Level:
        """What its ratio is of."""
        return self.surrogate.level

    def credit(self, batch: Batch) -> Credit:
        """Compare each episode with the others of its group."""
        return Credit(to_tokens(batch, leave_one_out(scores(batch), batch.group_e)))

    def denominator(self, batch: Batch, credit: Credit) -> Denominator:
        """Count what is averaged over."""
        return denominators(self.surrogate, batch, credit)

    def loss(self, now: Forward, batch: Batch, credit: Credit, denominator: Denominator) -> Loss:
        """Return the clipped surrogate."""
        return self.surrogate.loss(now, batch, credit, denominator.policy_b)

    def choices(self) -> tuple[str, ...]:
        """Say how episodes are compared and averaged."""
        return (
            f"group of {self.group_size}",
            f"ratio: {self.ratio}",
            *self.surrogate.choices(),
        )
