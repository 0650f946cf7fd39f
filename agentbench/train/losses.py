"""Losses, to be minimised: clipped policy and value losses, KL, entropy, and how tokens become one number.

The clipped objective of PPO (arXiv:1707.06347, eq. 7), with a range that may be wider above (DAPO, arXiv:2503.14476)
and a bound for what is bad and has become far likelier (dual clip, arXiv:1912.09729). With rho = exp(log-ratio):

    L = max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high)),        and where A < 0:  min(L, -dual_clip A)

`ratios.log_ratio` decides what rho is the ratio of: a token, a turn, a sequence. `aggregate` decides who has a vote:

    token-mean            sum over tokens / tokens                          long episodes count more (DAPO)
    seq-mean-token-sum    sum over tokens, mean over episodes               Dr. GRPO, up to its constant
    seq-mean-token-mean   mean over an episode's tokens, then over episodes          GRPO, GSPO
    turn-mean             sum over turns / turns
    seq-mean-turn-sum     sum over turns, mean over episodes
    turn-sum-per-token    sum over an episode's turns / its tokens, then mean over episodes      Turn-PPO

Each is a sum of values under denominators. Denominators of the whole batch make the losses of micro-batches add up to
the loss of the batch. In turn modes a turn's value is read at its first token, once.

Samples of a stale policy: clip against a recent policy (proximal), weigh against the one that sampled (behaviour).
Clipping against the behaviour policy would forbid to move from where the policy no longer is. The decoupled form
(arXiv:2110.00641; AReaL, arXiv:2505.24298) is

    policy_loss(log_ratio(new, proximal, ...), ..., weights_bt=truncated_importance_weights(proximal, behaviour, ...))

Axes: b a row (one sequence of an episode, which may have several), t a position. Masks are 1 on sampled tokens. The
functions serve turns as well: a critic over turns passes [b, k] and the mask of played turns. Numpy arrays and nested
lists are taken in place of tensors, see `arrays.takes_arrays`.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from agentbench.train.arrays import Labels, number_labels, takes_arrays
from agentbench.train.ratios import (
    LOG_RATIO_LIMIT,
    Level,
    log_ratio,
    require_one_of,
    require_same_shape,
    turn_starts,
    turns_on,
)

Aggregation = Literal[
    "token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "turn-mean", "seq-mean-turn-sum", "turn-sum-per-token"
]


class PolicyLoss(NamedTuple):
    """A differentiable scalar, and what to log about it."""

    loss: Tensor
    stats: dict[str, Tensor]
    """Detached scalars, see `policy_stats`."""


@takes_arrays
def aggregate(
    x_bt: Tensor,
    mask_bt: Tensor,
    mode: Aggregation,
    turn_bt: Tensor | None = None,
    episode_b: Labels | None = None,
    denominator: float | Tensor | None = None,
) -> Tensor:
    """Reduce values per token to one number, by one of the modes at the top of this file.

    An empty mask gives 0. What stands off the mask is not read, so it may be nan.

    Args:
        x_bt: Values, [b, t].
        mask_bt: 1 on sampled tokens, [b, t]. Episodes without any have no vote.
        mode: Who has a vote.
        turn_bt: Index of the turn on sampled tokens, [b, t]; for the turn modes.
        episode_b: Episode of each row, for episodes of several rows; None where each row is one.
        denominator: None counts in this batch. A number replaces what the mode takes its mean over (tokens, turns or
            episodes) by a global count; the tokens of an episode are still counted here, so an episode must not be
            split between micro-batches. A tensor [b], some rows of `denominators` of the whole batch, allows that too.

    Raises:
        ValueError: Shapes that differ, an unknown mode, missing turns, or a denominator that is not positive.
    """
    require_same_shape(x_bt=x_bt, mask_bt=mask_bt)
    votes = _votes(mask_bt, mode, turn_bt)
    return _reduce(x_bt, mask_bt, votes, mode, episode_b, denominator)


@takes_arrays
def denominators(
    mask_bt: Tensor, mode: Aggregation, turn_bt: Tensor | None = None, episode_b: Labels | None = None
) -> Tensor:
    """Return what each row of a batch is divided by in `aggregate`, [b].

    Pass the rows of a micro-batch as its `denominator`: however the batch is split, the losses then add up.

    Args:
        mask_bt: Of the whole batch, [b, t].
        mode: Who has a vote.
        turn_bt: For the turn modes.
        episode_b: Episode of each row.
    """
    counts = _counts(mask_bt, _votes(mask_bt, mode, turn_bt), mode, episode_b)
    return counts.each_b * counts.total


@takes_arrays
def policy_loss(
    log_ratio_bt: Tensor,
    advantages_bt: Tensor,
    mask_bt: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    aggregate: Aggregation = "token-mean",
    turn_bt: Tensor | None = None,
    episode_b: Labels | None = None,
    denominator: float | Tensor | None = None,
    weights_bt: Tensor | None = None,
) -> PolicyLoss:
    """Return the clipped policy loss at the top of this file, and what to log about it.

    Args:
        log_ratio_bt: From `log_ratio`, [b, t]; clamped to plus and minus 20.
        advantages_bt: Constants, [b, t]. In turn modes the one at the turn's first token is the turn's.
        mask_bt: 1 on sampled tokens, [b, t].
        clip_low: The ratio is clipped below at 1 - clip_low.
        clip_high: The ratio is clipped above at 1 + clip_high.
        dual_clip: Bounds the loss of a negative advantage by -dual_clip A; more than 1 (3 is usual), or None.
        aggregate: Who has a vote, see `aggregate`.
        turn_bt: Index of the turn, for turn modes.
        episode_b: Episode of each row.
        denominator: See `aggregate`.
        weights_bt: Importance of each token, a constant, [b, t]; multiplies the loss after clipping. For samples of an
            older policy: see `truncated_importance_weights` and the top of this file.

    Raises:
        ValueError: As `aggregate`, or a dual clip that is not above 1.
    """
    require_same_shape(log_ratio_bt=log_ratio_bt, advantages_bt=advantages_bt, mask_bt=mask_bt)
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip is {dual_clip}; it must be above 1, or None")
    votes = _votes(mask_bt, aggregate, turn_bt)
    log_ratio_bt = torch.where(votes, log_ratio_bt, 0.0).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    advantages_bt = torch.where(votes, advantages_bt.detach(), 0.0)

    ratio_bt = log_ratio_bt.exp()
    clipped_bt = ratio_bt.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss_bt = torch.maximum(-advantages_bt * ratio_bt, -advantages_bt * clipped_bt)
    if dual_clip is not None:
        loss_bt = torch.where(advantages_bt < 0, torch.minimum(loss_bt, -dual_clip * advantages_bt), loss_bt)
    if weights_bt is not None:
        require_same_shape(weights_bt=weights_bt, mask_bt=mask_bt)
        loss_bt = loss_bt * torch.where(votes, weights_bt.detach(), 0.0)

    loss = _reduce(loss_bt, mask_bt, votes, aggregate, episode_b, denominator)
    return PolicyLoss(loss, policy_stats(log_ratio_bt, advantages_bt, votes, clip_low, clip_high, dual_clip))


@takes_arrays
@torch.no_grad()
def policy_stats(
    log_ratio_bt: Tensor,
    advantages_bt: Tensor,
    votes_bt: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> dict[str, Tensor]:
    """Return what a clipped update looks like, as detached scalars on the tensors' device (reading one waits for it).

    Means are over the votes of this call (tokens, or turns in turn modes); weigh those of micro-batches by `votes`.

        votes                 how many ratios the loss read
        clip_fraction_low     share with A < 0 and a ratio under the range: no gradient
        clip_fraction_high    share with A > 0 and a ratio over the range: no gradient
        clip_fraction         both
        dual_clip_fraction    share with A < 0 and a ratio over `dual_clip`: no gradient
        approx_kl             mean of rho - 1 - log rho, an estimate of KL(old, new) that is never negative
        approx_kl_k1          mean of -log rho, the same without bias or bound, and noisier
        ratio_mean, ratio_max
    """
    ratio_bt, votes_bt = log_ratio_bt.exp(), votes_bt.bool()
    count = votes_bt.sum()

    def share(x_bt: Tensor) -> Tensor:
        return torch.where(votes_bt, x_bt.to(ratio_bt), 0.0).sum() / count.clamp(min=1)

    low = share((advantages_bt < 0) & (ratio_bt < 1.0 - clip_low))
    high = share((advantages_bt > 0) & (ratio_bt > 1.0 + clip_high))
    bound = float("inf") if dual_clip is None else dual_clip
    return {
        "votes": count,
        "clip_fraction_low": low,
        "clip_fraction_high": high,
        "clip_fraction": low + high,
        "dual_clip_fraction": share((advantages_bt < 0) & (ratio_bt > bound)),
        "approx_kl": share(ratio_bt - 1.0 - log_ratio_bt),
        "approx_kl_k1": share(-log_ratio_bt),
        "ratio_mean": share(ratio_bt),
        "ratio_max": torch.nn.functional.pad(torch.where(votes_bt, ratio_bt, 0.0).flatten(), (0, 1)).max(),
    }


@takes_arrays
@torch.no_grad()
def truncated_importance_weights(
    old_bt: Tensor,
    rollout_bt: Tensor,
    mask_bt: Tensor,
    *,
    level: Level,
    cap: float,
    floor: float = 0.0,
    turn_bt: Tensor | None = None,
    episode_b: Labels | None = None,
) -> Tensor:
    """Return min(pi_old / pi_rollout, cap) per token, turn or sequence, a constant; 0 off the mask.

    For samples of a policy that is not quite the trainer's: an older one, or the same with an inference engine's
    numbers. Turns and sequences use the product of their tokens' ratios. The cap trades bias for variance
    (arXiv:1802.01561, the truncated rho of V-trace).

    Args:
        old_bt: Log-probabilities under the policy that the trainer starts from, [b, t].
        rollout_bt: Under the policy that sampled, [b, t].
        mask_bt: 1 on sampled tokens, [b, t].
        level: What a weight belongs to; it is copied to the tokens there.
        cap: Upper bound.
        floor: Lower bound.
        turn_bt: Index of the turn, at level `turn`.
        episode_b: See `log_ratio`, at level `sequence`.
    """
    log_weights_bt = log_ratio(old_bt, rollout_bt, mask_bt, turn_bt, level=level, reduce="product", episode_b=episode_b)
    return torch.where(mask_bt.bool(), log_weights_bt.exp().clamp(floor, cap), 0.0)


@takes_arrays
def value_loss(
    values_bt: Tensor,
    old_values_bt: Tensor,
    returns_bt: Tensor,
    mask_bt: Tensor,
    *,
    clip: float | None,
    aggregate: Aggregation = "token-mean",
    turn_bt: Tensor | None = None,
    episode_b: Labels | None = None,
    denominator: float | Tensor | None = None,
) -> Tensor:
    """Return half the squared error of the critic, the larger of the plain one and one that may move by `clip` only.

        v' = clip(v, v_old - clip, v_old + clip)        L = max((v - R)^2, (v' - R)^2) / 2

    Args:
        values_bt: The critic's values, [b, t].
        old_values_bt: Its values when the samples were collected, [b, t].
        returns_bt: Targets, [b, t].
        mask_bt: 1 where the critic is trained, [b, t].
        clip: How far a value may move, in units of the return; None is the plain squared error.
        aggregate: Who has a vote. With a mask of one token per turn, `token-mean` gives each turn one vote and
            `seq-mean-token-mean` each episode.
        turn_bt: For turn modes.
        episode_b: Episode of each row.
        denominator: See `aggregate`.

    Source: arXiv:2005.12729, section on value function clipping.
    """
    errors_bt = _value_errors(values_bt, old_values_bt, returns_bt, mask_bt, clip)
    votes = _votes(mask_bt, aggregate, turn_bt)
    return 0.5 * _reduce(errors_bt.larger_bt, mask_bt, votes, aggregate, episode_b, denominator)


@takes_arrays
@torch.no_grad()
def value_clip_fraction(
    values_bt: Tensor, old_values_bt: Tensor, returns_bt: Tensor, mask_bt: Tensor, *, clip: float | None
) -> Tensor:
    """Return the share of the mask where `value_loss` takes the clipped error, a detached scalar."""
    errors_bt = _value_errors(values_bt, old_values_bt, returns_bt, mask_bt, clip)
    clipped = errors_bt.larger_bt > errors_bt.plain_bt
    return (clipped & mask_bt.bool()).sum().to(values_bt) / mask_bt.bool().sum().clamp(min=1)


@takes_arrays
def kl_penalty(new: Tensor, ref: Tensor, kind: Literal["k1", "k2", "k3"]) -> Tensor:
    """Estimate KL(new, ref) from log-probabilities of tokens that `new` sampled, element by element.

    With d = log pi_new - log pi_ref, clamped to plus and minus 20:

        k1 = d                  unbiased; as a *loss* its gradient has mean 0 and teaches nothing
        k2 = d^2 / 2            biased; its gradient is the gradient of the KL
        k3 = exp(-d) - 1 + d    unbiased, never negative

    Args:
        new: Log-probabilities under the policy, any shape.
        ref: Under the reference, the same shape.
        kind: The estimator. k1 is the one for rewards.

    Raises:
        ValueError: Shapes that differ, or an unknown kind.

    Source: J. Schulman, "Approximating KL divergence", 2020, http://joschu.net/blog/kl-approx.html.
    """
    require_one_of("kind", kind, ("k1", "k2", "k3"))
    if new.shape != ref.shape:
        raise ValueError(f"expected the same shape for both; found new {list(new.shape)}, ref {list(ref.shape)}")
    difference = (new - ref).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    if kind == "k1":
        return difference
    if kind == "k2":
        return 0.5 * difference.square()
    return torch.expm1(-difference) + difference


@takes_arrays
def entropy_from_logits(logits: Tensor) -> Tensor:
    """Return the entropy of softmax(logits) over the last dimension, in nats. A logit of -inf is a forbidden token."""
    log_probs = torch.log_softmax(logits, dim=-1)
    probs = log_probs.exp()
    return -(probs * log_probs.masked_fill(probs == 0, 0.0)).sum(-1)


class _ValueErrors(NamedTuple):
    plain_bt: Tensor
    larger_bt: Tensor


def _value_errors(
    values_bt: Tensor, old_values_bt: Tensor, returns_bt: Tensor, mask_bt: Tensor, clip: float | None
) -> _ValueErrors:
    require_same_shape(values_bt=values_bt, old_values_bt=old_values_bt, returns_bt=returns_bt, mask_bt=mask_bt)
    mask = mask_bt.bool()
    values_bt, old_bt, returns_bt = (
        torch.where(mask, x, 0.0) for x in (values_bt, old_values_bt.detach(), returns_bt.detach())
    )
    plain_bt = (values_bt - returns_bt).square()
    if clip is None:
        return _ValueErrors(plain_bt, plain_bt)
    clipped_bt = torch.maximum(torch.minimum(values_bt, old_bt + clip), old_bt - clip)
    return _ValueErrors(plain_bt, torch.maximum(plain_bt, (clipped_bt - returns_bt).square()))


def _votes(mask_bt: Tensor, mode: Aggregation, turn_bt: Tensor | None) -> Tensor:
    """Return true where a value is read: on sampled tokens, or on the first one of each turn."""
    require_one_of("aggregate", mode, get_args(Aggregation))
    mask = mask_bt.bool()
    return turn_starts(turns_on(mask, turn_bt)) if "turn" in mode else mask


def _reduce(
    x_bt: Tensor,
    mask_bt: Tensor,
    votes: Tensor,
    mode: Aggregation,
    episode_b: Labels | None,
    denominator: float | Tensor | None,
) -> Tensor:
    under_b = denominator
    if under_b is not None and not bool((torch.as_tensor(under_b) > 0).all()):
        raise ValueError(f"denominator is {torch.as_tensor(under_b).tolist()}; it must be positive")
    if not isinstance(under_b, Tensor) or not under_b.dim():
        counts = _counts(mask_bt, votes, mode, episode_b)
        under_b = counts.each_b.to(x_bt) * (counts.total if denominator is None else denominator)
    if under_b.shape != (len(mask_bt),):
        raise ValueError(f"denominator has shape {list(under_b.shape)}; expected one per row, [{len(mask_bt)}]")
    return (torch.where(votes, x_bt, 0.0) / under_b.to(x_bt)[:, None]).sum()


class _Counts(NamedTuple):
    each_b: Tensor
    """What is divided by per row: the tokens of its episode, or 1."""
    total: Tensor
    """What the mean is over: tokens, turns or episodes."""


def _counts(mask_bt: Tensor, votes: Tensor, mode: Aggregation, episode_b: Labels | None) -> _Counts:
    tokens_b = mask_bt.bool().sum(1)
    index_b = torch.tensor(number_labels(episode_b, len(mask_bt)), dtype=torch.long, device=mask_bt.device)
    tokens_e = torch.zeros_like(tokens_b).index_add(0, index_b, tokens_b)
    total = votes.sum() if mode in ("token-mean", "turn-mean") else (tokens_e > 0).sum()
    per_token = mode in ("seq-mean-token-mean", "turn-sum-per-token")
    each_b = tokens_e[index_b].clamp(min=1) if per_token else torch.ones_like(tokens_b)
    return _Counts(each_b, total.clamp(min=1))
