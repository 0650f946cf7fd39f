"""Supervised fine-tuning: make what was demonstrated likely.

    loss = - mean over sampled tokens of  log pi(a_t | everything before)

The demonstrations come through the same environments, contexts and token ids as rollouts (`train/sft.py`).
"""

from dataclasses import dataclass
from typing import ClassVar

from agentbench.train.batch import Batch, Credit, Denominator, Forward, Loss
from agentbench.train.losses import aggregate, denominators
from agentbench.train.ratios import Level


@dataclass(frozen=True)
class SFT:
    """Maximum likelihood on demonstrations."""

    name: ClassVar[str] = "sft"
    critic: ClassVar[str] = "none"
    unit: ClassVar[Level] = "token"
    demonstrates: ClassVar[bool] = True
    shaping_gamma: ClassVar[float | None] = 1.0

    group_size: ClassVar[int] = 1

    def credit(self, batch: Batch) -> Credit:
        """Every demonstrated token counts the same."""
        return Credit(batch.mask_bt.clone(), None, None)

    def denominator(self, batch: Batch, credit: Credit) -> Denominator:
        """The number of demonstrated tokens."""
        return Denominator(denominators(batch.mask_bt, "token-mean"), 1.0)

    def loss(self, now: Forward, batch: Batch, credit: Credit, denominator: Denominator) -> Loss:
        """Return the negative log-likelihood."""
        total = aggregate(-now.logprobs_bt, batch.mask_bt, "token-mean", denominator=denominator.policy_b)
        return Loss(total, {"policy/loss": total.item()}, float(batch.mask_bt.sum()))

    def choices(self) -> tuple[str, ...]:
        """What a report says about this algorithm."""
        return ("maximum likelihood per token",)
