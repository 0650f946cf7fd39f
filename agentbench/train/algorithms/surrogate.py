"""What the policy-gradient algorithms share: the clipped surrogate, the critic's error, and their denominators.

    rho   = exp(log-ratio of a token, a turn or an episode)
    actor = aggregate of  max(-A rho, -A clip(rho, 1 - low, 1 + high))
    value = 1/2 mean of  max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2)

(PPO, arXiv 1707.06347, equation 7; low != high is DAPO's clip-higher, arXiv 2503.14476, equation 10.)
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from agentbench.core.errors import UsageError
from agentbench.train.batch import Batch, Credit, Denominator, Forward, Loss
from agentbench.train.losses import Aggregation, policy_loss, value_loss
from agentbench.train.losses import denominators as policy_denominators
from agentbench.train.ratios import Level, log_ratio


@dataclass(frozen=True)
class Surrogate:
    """The actor's side of an algorithm."""

    level: Level
    reduce: Literal["product", "geometric"]
    reduction: Aggregation
    clip_low: float
    clip_high: float
    dual_clip: float | None

    def __post_init__(self) -> None:
        if not (0 < self.clip_low < 1 and self.clip_high > 0):
            raise UsageError(
                f"clipping needs 0 < clip_low < 1 and clip_high > 0, got {self.clip_low}, {self.clip_high}"
            )
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise UsageError(f"dual_clip must exceed 1, got {self.dual_clip}")
        if "turn" in self.reduction and self.level != "turn":
            raise UsageError(
                f"reduction = {self.reduction!r} reads one ratio per turn, and of a ratio per {self.level} it would see"
                " that of the turn's first token: take token-mean, seq-mean-token-mean or seq-mean-token-sum"
            )

    @property
    def bias(self) -> str:
        """What is wrong with this combination, in brackets; empty where nothing is.

        Where samples are fresh every ratio is 1, and a token t has the gradient c A_t grad log pi(a_t). Of an unbiased
        combination c is one number for the whole batch. Of others it is a power of how many tokens are in t's turn or
        in its episode:

            +1  a product has the gradient 1 at each of its tokens, and a reduction of tokens reads it at each of them
            -1  a geometric mean has the gradient 1 / length
            -1  in the episode's, where a reduction divides by its tokens
        """
        powers = {"turn": 0, "sequence": 0}
        if self.level != "token":
            powers[self.level] = ("turn" not in self.reduction) - (self.reduce == "geometric")
        powers["sequence"] -= self.reduction in ("seq-mean-token-mean", "turn-sum-per-token")
        said = "; ".join(_BIAS[segment, power] for segment, power in powers.items() if power)
        return f" (biased: {said})" if said else ""

    def choices(self) -> tuple[str, ...]:
        """Say how losses are averaged, and where ratios are clipped."""
        dual = "" if self.dual_clip is None else f", and at {self.dual_clip} where the advantage is negative"
        return (
            f"reduction: {self.reduction}{self.bias}",
            f"clip: {self.clip_low} below 1, {self.clip_high} above{dual}",
        )

    def loss(self, now: Forward, batch: Batch, credit: Credit, denominator_b: Tensor) -> Loss:
        """Return the actor's loss on some rows, and what to log."""
        ratio_bt = log_ratio(
            now.logprobs_bt,
            batch.logprobs_bt,
            batch.mask_bt,
            batch.turn_bt,
            level=self.level,
            reduce=self.reduce,
            episode_b=batch.episode_b,
        )
        total, stats = policy_loss(
            ratio_bt,
            credit.advantages_bt,
            batch.mask_bt,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            dual_clip=self.dual_clip,
            aggregate=self.reduction,
            turn_bt=batch.turn_bt,
            episode_b=batch.episode_b,
            denominator=denominator_b,
            weights_bt=credit.weights_bt,
        )
        logged = {f"policy/{name}": float(stats[name]) for name in _LOGGED}
        return Loss(total, {"policy/loss": total.item(), **logged}, float(stats["votes"]))


_BIAS = {
    ("turn", 1): "a turn counts once for each of its tokens",
    ("turn", -1): "the tokens of a long turn count less",
    ("sequence", 1): "a sequence counts once for each of its tokens",
    ("sequence", -1): "the tokens of a long episode count less, so that long failures cost less",
}
"""What a power of the length of a token's turn or sequence means, see `Surrogate.bias`."""

_LOGGED = ("clip_fraction", "clip_fraction_low", "clip_fraction_high", "dual_clip_fraction", "approx_kl", "ratio_mean")


def critic_error(now: Forward, batch: Batch, credit: Credit, clip: float | None, denominator: float) -> Tensor:
    """Return the critic's squared error on some rows, against a global count."""
    assert now.values_bt is not None
    assert batch.values_bt is not None
    assert credit.returns_bt is not None
    assert credit.value_mask_bt is not None
    return value_loss(
        now.values_bt,
        batch.values_bt,
        credit.returns_bt,
        credit.value_mask_bt,
        clip=clip,
        aggregate="token-mean",
        denominator=denominator,
    )


def denominators(surrogate: Surrogate, batch: Batch, credit: Credit) -> Denominator:
    """Count what actor and critic are averaged over, for all micro-batches of these rows."""
    values = 1.0 if credit.value_mask_bt is None else max(1.0, float(credit.value_mask_bt.sum()))
    policy_b = policy_denominators(batch.mask_bt, surrogate.reduction, batch.turn_bt, batch.episode_b)
    return Denominator(policy_b, values)


def scores(batch: Batch) -> Tensor:
    """Return what each episode was paid in all, penalties deducted: [e]."""
    return (batch.rewards_ek - batch.turn_sums(batch.penalties_bt)).sum(-1)


def to_tokens(batch: Batch, x_e: Tensor) -> Tensor:
    """Copy what belongs to episodes to all their sampled tokens."""
    copied: Tensor = x_e[batch.episode_b][:, None] * batch.mask_bt.to(x_e.dtype)
    return copied


def check_critic(group_size: int, value_clip: float | None, value_coef: float) -> None:
    """Refuse what cannot be meant.

    Raises:
        UsageError: With the field.
    """
    if group_size < 1:
        raise UsageError(f"group_size must be at least 1, got {group_size}")
    if value_clip is not None and value_clip <= 0:
        raise UsageError(f"value_clip must be positive, got {value_clip}; leave it out for the plain squared error")
    if value_coef < 0:
        raise UsageError(f"value_coef must not be negative, got {value_coef}")


def check_shares(**shares: float | None) -> None:
    """Refuse discounts and lambdas that are not between 0 and 1.

    Raises:
        UsageError: With the field.
    """
    for name, share in shares.items():
        if share is not None and not 0 <= share <= 1:
            raise UsageError(f"{name} must be between 0 and 1, got {share}")
