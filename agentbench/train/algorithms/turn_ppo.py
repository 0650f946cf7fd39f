r"""Turn-PPO: the turn is the action (arXiv 2512.17008).

A state is everything up to an observation, an action is the whole reply to it, and the critic says what the state is
worth before the reply begins. With rewards R_k and turns k = 1..K of an episode:

    delta_k = R_k + gamma V(s_{k+1}) - V(s_k),      A_k = delta_k + gamma lambda A_{k+1}
    rho_k   = prod_{t in k} pi(a_t | ...) / pi_old(a_t | ...)
    L_k     = max(-A_k rho_k, -A_k clip(rho_k, 1 - low, 1 + high))
    loss    = mean over episodes of  sum_k L_k / (sampled tokens of the episode)

No official code is public, and five public implementations disagree in four places. Each is a field, and every report
prints the choice:

    value_at    where V(s_k) is read: at the first token of the turn nothing of the reply is known, which makes a legal
                baseline; `last` and `mean` have seen the action
    ratio       `product` as above; `geometric`, the mean of the log-ratios, which gives GSPO's ratio per turn
                (arXiv 2507.18071); `token`, one ratio for each token
    whiten      over `turn`s, over `token`s (long turns weigh more), or `none`
    reduction   how turns are averaged; see `losses.aggregate`

The critic's error gives each turn one vote; iOPEN, one of the five, gives each episode one (see `critic`).

A product over a long turn leaves the clip range for reasons that are noise: half of the turns at 100 tokens with a
standard deviation of 0.03 each. Watch `policy/clip_fraction`, or take the geometric mean with a clip near 3e-4.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from agentbench.train.advantages import turn_gae, whiten
from agentbench.train.algorithms.surrogate import Surrogate, check_critic, check_shares, critic_error, denominators
from agentbench.train.batch import Batch, Credit, Denominator, Forward, Loss
from agentbench.train.losses import Aggregation
from agentbench.train.ratios import Level


@dataclass(frozen=True)
class TurnPPO:
    """Proximal policy optimisation with turns as actions."""

    name: ClassVar[str] = "turn-ppo"
    critic: ClassVar[str] = "turn"
    demonstrates: ClassVar[bool] = False

    group_size: int = 1
    gamma: float = 0.99
    """Discount per turn."""
    lam: float = 0.95
    lam_critic: float | None = None
    """Lambda of the critic's targets, where it is to differ (decoupled GAE, VC-PPO, arXiv 2503.01491)."""
    value_at: Literal["first", "last", "mean"] = "first"
    ratio: Literal["product", "geometric", "token"] = "product"
    whiten: Literal["turn", "token", "none"] = "turn"
    reduction: Aggregation = "turn-sum-per-token"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    value_clip: float | None = 0.5
    value_coef: float = 0.5

    def __post_init__(self) -> None:
        _ = self.surrogate
        check_critic(self.group_size, self.value_clip, self.value_coef)
        check_shares(gamma=self.gamma, lam=self.lam, lam_critic=self.lam_critic)

    @property
    def surrogate(self) -> Surrogate:
        """The actor's loss."""
        level: Literal["token", "turn"] = "token" if self.ratio == "token" else "turn"
        reduce: Literal["product", "geometric"] = "geometric" if self.ratio == "geometric" else "product"
        return Surrogate(level, reduce, self.reduction, self.clip_low, self.clip_high, self.dual_clip)

    @property
    def shaping_gamma(self) -> float:
        """The discount per turn."""
        return self.gamma

    @property
    def unit(self) -> Level:
        """What its ratio is of."""
        return self.surrogate.level

    def credit(self, batch: Batch) -> Credit:
        """Estimate the advantage of each turn and copy it to the turn's tokens."""
        values_ek = self._values(batch)
        rewards_ek = batch.rewards_ek - batch.turn_sums(batch.penalties_bt)

        def estimate(lam: float) -> tuple[Tensor, Tensor]:
            return turn_gae(
                rewards_ek, values_ek, batch.turn_mask_ek, gamma=self.gamma, lam=lam, last_values_b=batch.last_value_e
            )

        advantages_ek, returns_ek = estimate(self.lam)
        if self.lam_critic is not None:
            _, returns_ek = estimate(self.lam_critic)
        if self.whiten == "turn":
            advantages_ek = whiten(advantages_ek, batch.turn_mask_ek)
        advantages_bt = batch.spread(advantages_ek)
        if self.whiten == "token":
            advantages_bt = whiten(advantages_bt, batch.mask_bt)
        where = batch.mask_bt if self.value_at == "mean" else batch.turn_edge(self.value_at)
        return Credit(advantages_bt, batch.spread(returns_ek), where)

    def denominator(self, batch: Batch, credit: Credit) -> Denominator:
        """Count what is averaged over."""
        return denominators(self.surrogate, batch, credit)

    def loss(self, now: Forward, batch: Batch, credit: Credit, denominator: Denominator) -> Loss:
        """Return the clipped surrogate and the critic's error."""
        actor = self.surrogate.loss(now, batch, credit, denominator.policy_b)
        value = critic_error(now, batch, credit, self.value_clip, denominator.value)
        metrics = {**actor.metrics, "value/loss": value.item()}
        return Loss(actor.total + self.value_coef * value, metrics, actor.votes)

    def choices(self) -> tuple[str, ...]:
        """Say what the four open choices are."""
        legal = "" if self.value_at == "first" else " (biased: this baseline has seen the action)"
        decoupled = "" if self.lam_critic is None else f", of the critic {self.lam_critic}"
        return (
            f"V(s) at the {self.value_at} token of a turn{legal}",
            f"ratio: {self.ratio}",
            f"gamma {self.gamma} per turn, lambda {self.lam}{decoupled}",
            f"advantages whitened over: {self.whiten}",
            *self.surrogate.choices(),
        )

    def _values(self, batch: Batch) -> Tensor:
        assert batch.values_bt is not None, "turn-PPO needs the critic's values"
        if self.value_at == "mean":
            return batch.turn_sums(batch.values_bt) / batch.turn_sums(torch.ones_like(batch.values_bt)).clamp(min=1)
        return batch.turn_sums(batch.values_bt * batch.turn_edge(self.value_at))
