r"""Token-PPO: every sampled token is an action (PPO, arXiv 1707.06347, over the concatenated turns of an episode).

With sampled tokens j = 1..n of an episode, in order and across turns, rewards paid at the last token of their turn:

    delta_j = r_j + gamma V_{j+1} - V_j,      A_j = delta_j + gamma lambda A_{j+1}

Observations are no actions: V_{j+1} is the value before the next *sampled* token, and nothing is discounted for what
stands between (the skip-observation estimator; others bootstrap from observations, or stop at them, and give other
numbers on the same batch).

Fields, not copies: `credit_mode = "bilevel"` first spreads credit over turns and then within each (VAGEN, RAGEN;
`high_gamma` is the discount per turn); `lam_critic` decouples the critic's targets (VC-PPO, arXiv 2503.01491);
`adaptive_alpha` makes lambda 1 - 1/(alpha n) for an episode of n tokens (VAPO, arXiv 2504.05118).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from agentbench.core.errors import UsageError
from agentbench.train.advantages import bilevel_gae, gae, length_adaptive_lambda, whiten
from agentbench.train.algorithms.surrogate import Surrogate, check_critic, check_shares, critic_error, denominators
from agentbench.train.batch import Batch, Credit, Denominator, Forward, Loss
from agentbench.train.losses import Aggregation
from agentbench.train.ratios import Level


@dataclass(frozen=True)
class TokenPPO:
    """Proximal policy optimisation with tokens as actions."""

    name: ClassVar[str] = "token-ppo"
    critic: ClassVar[str] = "token"
    demonstrates: ClassVar[bool] = False

    group_size: int = 1
    gamma: float = 1.0
    """Discount per sampled token."""
    lam: float = 0.95
    lam_critic: float | None = None
    adaptive_alpha: float | None = None
    credit_mode: Literal["token", "bilevel"] = "token"
    high_gamma: float = 0.95
    """Discount per turn, for `bilevel`."""
    whiten: Literal["token", "none"] = "token"
    reduction: Aggregation = "token-mean"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    value_clip: float | None = 0.5
    value_coef: float = 0.5

    def __post_init__(self) -> None:
        _ = self.surrogate
        check_critic(self.group_size, self.value_clip, self.value_coef)
        check_shares(gamma=self.gamma, lam=self.lam, lam_critic=self.lam_critic, high_gamma=self.high_gamma)
        if self.adaptive_alpha is not None and self.adaptive_alpha <= 0:
            raise UsageError(f"adaptive_alpha must be positive, got {self.adaptive_alpha}")
        if self.credit_mode == "bilevel" and self.adaptive_alpha is not None:
            raise UsageError("adaptive_alpha belongs to credit_mode = 'token'; bilevel credit has one lambda")

    @property
    def surrogate(self) -> Surrogate:
        """The actor's loss."""
        return Surrogate("token", "product", self.reduction, self.clip_low, self.clip_high, self.dual_clip)

    @property
    def shaping_gamma(self) -> float | None:
        """The discount per turn; there is none where a turn is discounted by its length."""
        if self.credit_mode == "bilevel":
            return self.high_gamma
        return 1.0 if self.gamma == 1.0 else None

    @property
    def unit(self) -> Level:
        """What its ratio is of."""
        return self.surrogate.level

    def credit(self, batch: Batch) -> Credit:
        """Estimate the advantage of each token."""
        assert batch.values_bt is not None, "token-PPO needs the critic's values"
        paid_bt = batch.spread(batch.rewards_ek) * batch.turn_edge("last") - batch.penalties_bt
        rewards_ej, values_ej = batch.gather(paid_bt), batch.gather(batch.values_bt)
        advantages_ej, returns_ej = self._estimate(batch, rewards_ej, values_ej, self._lam(batch))
        if self.lam_critic is not None:
            _, returns_ej = self._estimate(batch, rewards_ej, values_ej, self.lam_critic)
        if self.whiten == "token":
            advantages_ej = whiten(advantages_ej, batch.tokens.mask_ej)
        return Credit(batch.scatter(advantages_ej), batch.scatter(returns_ej), batch.mask_bt)

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
        """Say how credit is assigned and averaged."""
        lam = (
            f"{self.lam}" if self.adaptive_alpha is None else f"1 - 1 / ({self.adaptive_alpha} x tokens of the episode)"
        )
        per_turn = f", {self.high_gamma} per turn" if self.credit_mode == "bilevel" else ""
        decoupled = "" if self.lam_critic is None else f", of the critic {self.lam_critic}"
        return (
            f"credit: {self.credit_mode}",
            f"gamma {self.gamma} per token{per_turn}, lambda {lam}{decoupled}",
            f"advantages whitened over: {self.whiten}",
            *self.surrogate.choices(),
        )

    def _lam(self, batch: Batch) -> "float | Tensor":
        if self.adaptive_alpha is None:
            return self.lam
        return length_adaptive_lambda(batch.tokens.mask_ej.sum(-1), self.adaptive_alpha)

    def _estimate(
        self, batch: Batch, rewards_ej: Tensor, values_ej: Tensor, lam: "float | Tensor"
    ) -> tuple[Tensor, Tensor]:
        index = batch.tokens
        if self.credit_mode == "token":
            return gae(
                rewards_ej, values_ej, index.mask_ej, gamma=self.gamma, lam=lam, last_values_b=batch.last_value_e
            )
        assert isinstance(lam, float)
        return bilevel_gae(
            rewards_ej,
            values_ej,
            index.mask_ej,
            index.turn_ej,
            gamma=self.gamma,
            lam=lam,
            high_gamma=self.high_gamma,
            last_values_b=batch.last_value_e,
        )
