"""Credit: from rewards and values to advantages. How much better than expected was what the policy did?

With a critic, generalised advantage estimation (GAE; Schulman et al., arXiv:1506.02438, eq. 16), along a chain of
actions n = 1..N with rewards r_n and values V_n read before each action:

    delta_n = r_n + gamma V_{n+1} - V_n        A_n = delta_n + gamma lambda A_{n+1}        return_n = A_n + V_n

    gae           an action is a token          observation tokens are skipped, and cost no discount
    turn_gae      an action is a turn           Turn-PPO, arXiv:2512.17008
    bilevel_gae   turns first, then the tokens inside each turn       VAGEN, arXiv:2510.16907

Without one, episodes of the same task are compared with each other:

    group_normalise   (s - mean) / (std + eps)            GRPO, arXiv:2402.03300; without std Dr. GRPO, arXiv:2503.20783
    leave_one_out     s - mean of the others              RLOO, arXiv:2402.14740
    reinforce_plus_plus   discounted return, whitened over the batch's tokens        REINFORCE++, arXiv:2501.03262
    gigpo             episodes compared by task, steps by the state they were taken in     GiGPO, arXiv:2505.10978

Everything here is a constant to the optimiser: no gradient flows. Axes: b a row, t a position, k a turn, n a step.
Masks are 1 on sampled tokens (or played turns) and 0 elsewhere; outputs are exactly 0 there, whatever the inputs hold.
Numpy arrays and nested lists are taken in place of tensors, see `arrays.takes_arrays`.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from agentbench.train.arrays import Labels, label_list, number_labels, takes_arrays
from agentbench.train.ratios import require_one_of, require_same_shape, turn_ends, turns_on

Scale = Literal["std", "none"]


class Estimate(NamedTuple):
    """What a critic-based estimator says of every action; 0 off the mask."""

    advantages: Tensor
    returns: Tensor
    """Targets of the critic: advantage plus value, before any whitening."""


class _Actions(NamedTuple):
    """Where the actions of each row stand, moved together so that what lies between them is skipped."""

    position_bn: Tensor
    present_bn: Tensor

    def take(self, x_bt: Tensor) -> Tensor:
        return torch.where(self.present_bn, x_bt.gather(1, self.position_bn), 0)

    def put(self, x_bn: Tensor, like_bt: Tensor) -> Tensor:
        return torch.zeros_like(like_bt).scatter_add(1, self.position_bn, torch.where(self.present_bn, x_bn, 0))

    def following(self, x_bn: Tensor, last_b: Tensor | None) -> Tensor:
        """Shift by one action; behind the last action of a row stands `last_b`, or 0."""
        next_bn = torch.cat([x_bn[:, 1:], torch.zeros_like(x_bn[:, :1])], dim=1)
        if last_b is None:
            return next_bn
        index_n = torch.arange(x_bn.shape[1], device=x_bn.device)
        is_last_bn = index_n == self.present_bn.sum(1, keepdim=True) - 1
        return torch.where(is_last_bn, last_b.to(x_bn).reshape(-1, 1), next_bn)


@takes_arrays
@torch.no_grad()
def gae(
    rewards_bt: Tensor,
    values_bt: Tensor,
    mask_bt: Tensor,
    *,
    gamma: float,
    lam: float | Tensor,
    last_values_b: Tensor | None = None,
) -> Estimate:
    """Estimate advantages token by token, from one sampled token to the next sampled token.

    Observation tokens are skipped: their values are not read, they cost no discount, and a reward that stands on one is
    not paid. Put a turn's reward on a token that was sampled.

    Args:
        rewards_bt: Reward at each token, [b, t].
        values_bt: Value of the state before each token, [b, t].
        mask_bt: 1 on sampled tokens, [b, t].
        gamma: Discount per sampled token, 0 to 1.
        lam: GAE's lambda, 0 to 1; one number, or one per row [b] (see `length_adaptive_lambda`).
        last_values_b: Value of what follows the last sampled token, [b] or one number for all: the bootstrap of an
            episode that was cut off. None where every row ended.

    Returns:
        Advantages and returns, [b, t], not whitened.

    Raises:
        ValueError: Shapes that do not fit.
    """
    require_same_shape(rewards_bt=rewards_bt, values_bt=values_bt, mask_bt=mask_bt)
    _require_per_row(values_bt, lam=lam, last_values_b=last_values_b)
    actions = _actions(mask_bt.bool())
    values_bn = actions.take(values_bt)
    rewards_bn = actions.take(rewards_bt).to(values_bn)
    deltas_bn = rewards_bn + gamma * actions.following(values_bn, last_values_b) - values_bn
    advantages_bn = _discounted_sum(deltas_bn, _decay(gamma, lam, values_bn))
    return Estimate(actions.put(advantages_bn, values_bt), actions.put(advantages_bn + values_bn, values_bt))


@takes_arrays
def turn_gae(
    rewards_bk: Tensor,
    values_bk: Tensor,
    turn_mask_bk: Tensor,
    *,
    gamma: float,
    lam: float | Tensor,
    last_values_b: Tensor | None = None,
) -> Estimate:
    """Estimate advantages turn by turn: the same recursion, with a whole reply as the action (arXiv:2512.17008).

    Args:
        rewards_bk: Reward of each turn, [b, k].
        values_bk: Value of the state before each turn, [b, k]; read at the turn's first token it has seen nothing of
            the reply.
        turn_mask_bk: 1 on turns that were played, [b, k].
        gamma: Discount per turn.
        lam: GAE's lambda; one number, or one per episode [b].
        last_values_b: Value of what follows the last turn, [b]; None is 0.

    Returns:
        Advantages and returns, [b, k]; each is meant for all tokens of its turn.
    """
    return gae(rewards_bk, values_bk, turn_mask_bk, gamma=gamma, lam=lam, last_values_b=last_values_b)


@takes_arrays
@torch.no_grad()
def bilevel_gae(
    rewards_bt: Tensor,
    values_bt: Tensor,
    mask_bt: Tensor,
    turn_bt: Tensor,
    *,
    gamma: float,
    lam: float | Tensor,
    high_gamma: float,
    last_values_b: Tensor | None = None,
) -> Estimate:
    """Estimate advantages over turns, then over the tokens of each turn (VAGEN, arXiv:2510.16907).

    High level, with e_k the last token of turn k and R_k the reward there:

        A_k = R_k + high_gamma V(e_{k+1}) - V(e_k) + high_gamma lambda A_{k+1},        G_k = A_k + V(e_k)

    Low level, inside each turn, GAE as if the turn were an episode that ends at e_k with reward G_k. So discounting is
    charged per turn between turns, and per token inside one. At gamma = high_gamma = lambda = 1 this is `gae`.

    Args:
        rewards_bt: Rewards, [b, t]; a turn's reward stands at its last token. One elsewhere in a turn is credited
            inside that turn only.
        values_bt: Value of the state before each token, [b, t].
        mask_bt: 1 on sampled tokens, [b, t].
        turn_bt: Index of the turn on sampled tokens, -1 elsewhere, [b, t]. Turns end where this says so, also where
            their reward is 0.
        gamma: Discount per token inside a turn.
        lam: GAE's lambda on both levels; one number, or one per row [b].
        high_gamma: Discount per turn.
        last_values_b: Value of what follows the last turn, [b]; None is 0.

    Returns:
        Advantages and returns, [b, t].
    """
    require_same_shape(rewards_bt=rewards_bt, values_bt=values_bt, mask_bt=mask_bt, turn_bt=turn_bt)
    mask = mask_bt.bool()
    ends_bt = turn_ends(turns_on(mask, turn_bt))
    turns = gae(rewards_bt, values_bt, ends_bt, gamma=high_gamma, lam=lam, last_values_b=last_values_b)

    actions = _actions(mask)
    ends_bn, values_bn = actions.take(ends_bt).bool(), actions.take(values_bt)
    inside_bn = actions.take(rewards_bt).to(values_bn) + gamma * actions.following(values_bn, None)
    deltas_bn = torch.where(ends_bn, actions.take(turns.returns), inside_bn) - values_bn
    decay_bn = torch.where(ends_bn, 0.0, _decay(gamma, lam, values_bn))
    advantages_bn = _discounted_sum(deltas_bn, decay_bn)
    return Estimate(actions.put(advantages_bn, values_bt), actions.put(advantages_bn + values_bn, values_bt))


@takes_arrays
def returns_to_go(rewards_bt: Tensor, mask_bt: Tensor, *, gamma: float) -> Tensor:
    """Return the discounted sum of the rewards from each sampled token on, [b, t]; observations cost no discount.

    Also what a critic is fitted to before the actor moves (Monte-Carlo returns; VC-PPO, arXiv:2503.01491).
    """
    return gae(rewards_bt, torch.zeros_like(rewards_bt), mask_bt, gamma=gamma, lam=1.0).returns


@takes_arrays
def reinforce_plus_plus(rewards_bt: Tensor, mask_bt: Tensor, *, gamma: float) -> Tensor:
    """Return REINFORCE++ advantages: discounted returns, whitened over the sampled tokens of the batch.

    The return passes through observations, so that the end of an episode reaches its first turn; implementations that
    reset it wherever the mask is 0 lose it at the first gap. `returns_to_go` gives the returns before whitening.

    Args:
        rewards_bt: Reward at each token, [b, t].
        mask_bt: 1 on sampled tokens, [b, t].
        gamma: Discount per sampled token.

    Source: arXiv:2501.03262, section on global advantage normalisation.
    """
    return whiten(returns_to_go(rewards_bt, mask_bt, gamma=gamma), mask_bt)


@takes_arrays
@torch.no_grad()
def group_normalise(scores_b: Tensor, group_b: Labels, *, scale: Scale, eps: float = 1e-6) -> Tensor:
    """Compare each score with its group: (s - mean) / (std + eps), or s - mean (arXiv:2402.03300; arXiv:2503.20783).

    One score per *episode*: an episode that fills several rows has one vote. The standard deviation is the unbiased
    one. A group of equal scores gives exactly 0. A group of one has nobody to compare with: its mean counts as 0 and
    its deviation as 1, so that its score is its advantage; drop such groups where that is not wanted.

    Args:
        scores_b: Total reward of each episode, [b].
        group_b: Label of each episode's group.
        scale: `std` divides by the group's standard deviation; `none` does not (Dr. GRPO).
        eps: Added to the standard deviation.

    Raises:
        ValueError: Not one label per score, or an unknown scale.
    """
    return _normalise(scores_b, group_b, scale, eps, alone=scores_b / (1.0 + eps) if scale == "std" else scores_b)


@takes_arrays
@torch.no_grad()
def leave_one_out(scores_b: Tensor, group_b: Labels) -> Tensor:
    """Compare each score with the mean of the others of its group (RLOO, arXiv:2402.14740).

    The same as n / (n - 1) (s - mean) in a group of n. A group of one, or of equal scores, gives exactly 0.

    Args and errors are those of `group_normalise`.
    """
    advantages_b = torch.zeros_like(scores_b)
    for members in _groups(scores_b, group_b):
        if len(members) > 1:
            advantages_b[members] = _centred(scores_b[members]) * (len(members) / (len(members) - 1))
    return advantages_b


@takes_arrays
@torch.no_grad()
def gigpo(
    step_returns_n: Tensor,
    scores_n: Tensor,
    episode_n: Labels,
    group_n: Labels,
    anchor_n: Labels,
    *,
    weight: float,
    scale: Scale,
    eps: float = 1e-6,
    vote: Literal["step", "episode"] = "step",
) -> Tensor:
    """Compare episodes with episodes of the same task, and steps with steps taken in the same state (GiGPO).

        A_n = A_episode + weight A_step        (arXiv:2505.10978)

    Both are as in `group_normalise`; a step whose state nobody else met has A_step = 0.

    Args:
        step_returns_n: Discounted return from each step on, inside its episode, [n].
        scores_n: Total reward of the step's episode, [n], the same on all its steps.
        episode_n: Label of the step's episode.
        group_n: Label of the task.
        anchor_n: The state that the step was taken in, without history. Equal states of one task are compared.
        weight: Of the step's advantage; 1 in the paper.
        scale: `std` or `none`.
        eps: Added to the standard deviations.
        vote: Who counts in the mean and deviation of scores. `step` is what the released code does, where a long
            episode counts once for each of its steps; `episode` is the paper, where each counts once.

    Returns:
        One advantage per step, [n], meant for all tokens of the step.

    Raises:
        ValueError: Not one label per step, or an unknown scale or vote.
    """
    require_one_of("vote", vote, ("step", "episode"))
    tasks, owners, anchors = (label_list(labels_n, len(scores_n)) for labels_n in (group_n, episode_n, anchor_n))
    states = list(zip(tasks, anchors, strict=True))
    step_advantages_n = _normalise(step_returns_n, states, scale, eps, alone=torch.zeros_like(step_returns_n))
    if vote == "step":
        return group_normalise(scores_n, tasks, scale=scale, eps=eps) + weight * step_advantages_n
    index_n = number_labels(list(zip(tasks, owners, strict=True)), len(scores_n))
    first_e = [index_n.index(e) for e in range(len(set(index_n)))]
    episode_advantages_e = group_normalise(scores_n[first_e], [tasks[n] for n in first_e], scale=scale, eps=eps)
    return episode_advantages_e[index_n] + weight * step_advantages_n


@takes_arrays
@torch.no_grad()
def whiten(x: Tensor, mask: Tensor, *, eps: float = 1e-8) -> Tensor:
    """Return (x - mean) / sqrt(variance + eps) on the mask, and 0 elsewhere.

    Mean and unbiased variance are over the mask: its unit is the unit of the vote. Over tokens a long turn counts more,
    over turns each counts once. Fewer than two elements, or equal ones, give 0.

    Args:
        x: Any shape.
        mask: The same shape.
        eps: Added to the variance.

    Raises:
        ValueError: Shapes that differ.
    """
    if x.shape != mask.shape:
        raise ValueError(f"expected one shape for both; found x {list(x.shape)}, mask {list(mask.shape)}")
    chosen = mask.bool()
    whitened = torch.zeros_like(x)
    if int(chosen.sum()) > 1:
        centred = _centred(x[chosen])
        whitened[chosen] = centred * torch.rsqrt(centred.square().sum() / (len(centred) - 1) + eps)
    return whitened


@takes_arrays
def length_adaptive_lambda(n_tokens: Tensor | float, alpha: float) -> Tensor:
    """Return lambda = 1 - 1 / (alpha l), so that the weights lambda^0 + lambda^1 + ... of GAE add up to alpha l (VAPO).

    Args:
        n_tokens: Sampled tokens of each response, l.
        alpha: 0.05 in the paper.

    Returns:
        Lambda within [0, 1], the shape of `n_tokens`; 0 up to l = 1 / alpha, where the formula is not positive.

    Raises:
        ValueError: `alpha` is not positive.

    Source: arXiv:2504.05118, section on length-adaptive GAE.
    """
    if alpha <= 0:
        raise ValueError(f"alpha is {alpha}; it must be positive")
    return (1.0 - 1.0 / (alpha * torch.as_tensor(n_tokens))).clamp(0.0, 1.0)


def _normalise(scores_n: Tensor, labels_n: Labels, scale: Scale, eps: float, *, alone: Tensor) -> Tensor:
    require_one_of("scale", scale, ("std", "none"))
    advantages_n = alone.clone()
    for members in _groups(scores_n, labels_n):
        if len(members) > 1:
            centred = _centred(scores_n[members])
            deviation = (centred.square().sum() / (len(members) - 1)).sqrt() + eps if scale == "std" else 1.0
            advantages_n[members] = centred / deviation
    return advantages_n


def _centred(x_n: Tensor) -> Tensor:
    """Subtract the mean. One element is subtracted first, so that equal ones give exactly 0 in every precision."""
    shifted_n = x_n - x_n[0]
    return shifted_n - shifted_n.mean()


def _groups(scores_n: Tensor, labels_n: Labels) -> list[list[int]]:
    if scores_n.dim() != 1:
        raise ValueError(f"expected one score per element, [n]; found {list(scores_n.shape)}")
    groups: dict[int, list[int]] = {}
    for n, group in enumerate(number_labels(labels_n, len(scores_n))):
        groups.setdefault(group, []).append(n)
    return list(groups.values())


def _actions(mask: Tensor) -> _Actions:
    count_b = mask.sum(1)
    longest = int(count_b.max()) if len(mask) else 0
    position_bn = torch.argsort((~mask).int(), dim=1, stable=True)[:, :longest]
    index_n = torch.arange(longest, device=mask.device)
    return _Actions(position_bn, index_n < count_b[:, None])


def _discounted_sum(x_bn: Tensor, decay_bn: Tensor) -> Tensor:
    """Return y_n = x_n + decay_n y_{n+1}, from the back."""
    sums_bn = torch.zeros_like(x_bn)
    later_b = x_bn.new_zeros(len(x_bn))
    for n in reversed(range(x_bn.shape[1])):
        later_b = x_bn[:, n] + decay_bn[:, n] * later_b
        sums_bn[:, n] = later_b
    return sums_bn


def _decay(gamma: float, lam: float | Tensor, like_bn: Tensor) -> Tensor:
    lam_b1 = torch.as_tensor(lam, dtype=like_bn.dtype, device=like_bn.device).reshape(-1, 1)
    return (gamma * lam_b1).expand_as(like_bn)


def _require_per_row(like_bt: Tensor, **per_row: float | Tensor | None) -> None:
    for name, x in per_row.items():
        if isinstance(x, Tensor) and tuple(x.shape) not in ((), (len(like_bt),)):
            raise ValueError(f"{name} has shape {list(x.shape)}; expected one number per row, [{len(like_bt)}]")
