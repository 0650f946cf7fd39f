r"""GRPO: the group is the baseline (DeepSeekMath, arXiv 2402.03300).

Several episodes of one task are compared with each other; there is no critic. With scores s_i, the sums of rewards:

    A_i = (s_i - mean of the group) / (standard deviation of the group + 1e-6),   the same for all tokens of episode i

Dr.GRPO (arXiv 2503.20783) shows two biases: dividing by the deviation weighs easy and hard tasks up, and averaging
within an episode first makes long wrong answers cheap. `scale = "none"` with `reduction = "seq-mean-token-sum"` is
Dr.GRPO; `ratio = "sequence"` with a clip near 3e-4 is GSPO (arXiv 2507.18071). Every statistic counts an episode once,
however many rows its context needed. Groups of equal scores teach nothing; the loop leaves them out and counts them.
"""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from agentbench.core.errors import UsageError
from agentbench.train.advantages import group_normalise
from agentbench.train.algorithms.surrogate import Surrogate, denominators, scores, to_tokens
from agentbench.train.batch import Batch, Credit, Denominator, Forward, Loss
from agentbench.train.losses import Aggregation
from agentbench.train.ratios import Level


@dataclass(frozen=True)
class GRPO:
    """Group-relative policy optimisation."""

    name: ClassVar[str] = "grpo"
    critic: ClassVar[str] = "none"
    demonstrates: ClassVar[bool] = False
    shaping_gamma: ClassVar[float | None] = 1.0

    group_size: int = 8
    scale: Literal["std", "none"] = "std"
    ratio: Literal["token", "turn", "sequence"] = "token"
    """Of what the ratio is taken; turns and sequences by their geometric mean."""
    reduction: Aggregation = "seq-mean-token-mean"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None

    def __post_init__(self) -> None:
        _ = self.surrogate
        if self.group_size < 2:
            raise UsageError(
                f"grpo compares the episodes of a group: group_size must be at least 2, not {self.group_size}"
            )

    @property
    def surrogate(self) -> Surrogate:
        """The actor's loss."""
        return Surrogate(self.ratio, "geometric", self.reduction, self.clip_low, self.clip_high, self.dual_clip)

    @property
    def unit(self) -> Level:
        """What its ratio is of."""
        return self.surrogate.level

    def credit(self, batch: Batch) -> Credit:
        """Compare each episode with its group; one that is alone, for the others broke, teaches nothing."""
        advantages_e = group_normalise(scores(batch), batch.group_e, scale=self.scale)
        members = Counter(batch.group_e)
        alone_e = torch.tensor([members[group] == 1 for group in batch.group_e])
        return Credit(to_tokens(batch, advantages_e.masked_fill(alone_e, 0.0)))

    def denominator(self, batch: Batch, credit: Credit) -> Denominator:
        """Count what is averaged over."""
        return denominators(self.surrogate, batch, credit)

    def loss(self, now: Forward, batch: Batch, credit: Credit, denominator: Denominator) -> Loss:
        """Return the clipped surrogate."""
        return self.surrogate.loss(now, batch, credit, denominator.policy_b)

    def choices(self) -> tuple[str, ...]:
        """Say how episodes are compared and averaged, and what of it is biased."""
        scaled = " (biased towards very easy and very hard tasks, arXiv 2503.20783)" if self.scale == "std" else ""
        return (
            f"group of {self.group_size}, scale: {self.scale}{scaled}",
            f"ratio: {self.ratio}",
            *self.surrogate.choices(),
        )
