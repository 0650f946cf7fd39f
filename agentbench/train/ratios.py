"""How much more likely one policy makes what was sampled than another: log-ratios per token, turn or sequence.

With d_t = log pi_new(a_t) - log pi_old(a_t) on sampled tokens, a segment S (a token, a turn, a sequence) has the ratio

    product      rho_S = exp( sum_{t in S} d_t )     the ratio of its probabilities (Turn-PPO, arXiv:2512.17008)
    geometric    rho_S = exp( mean_{t in S} d_t )    the mean per token of that (GSPO, arXiv:2507.18071)

With noise of standard deviation s per token, the logarithm of a product over L tokens has s sqrt(L): long turns leave
any clip range for no reason but their length. The geometric mean does not, and wants a clip range near 3e-4.

Axes: b a row (one sequence of one episode), t a position in it, k a turn. `mask_bt` is 1 on sampled tokens, 0 on
observations and padding; `turn_bt` holds the index of the turn on sampled tokens and -1 elsewhere. Numpy arrays and
nested lists are taken in place of tensors, see `arrays.takes_arrays`.
"""

from typing import Literal

import torch
from torch import Tensor

from agentbench.train.arrays import Labels, number_labels, takes_arrays

Level = Literal["token", "turn", "sequence"]
Reduction = Literal["product", "geometric"]

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to plus and minus this; e**20 is 4.9e8, and float32 still adds up a batch of those."""


@takes_arrays
def log_ratio(
    new_bt: Tensor,
    old_bt: Tensor,
    mask_bt: Tensor,
    turn_bt: Tensor | None,
    *,
    level: Level,
    reduce: Reduction,
    episode_b: Labels | None = None,
) -> Tensor:
    """Return log rho of the segment that each token belongs to, copied to all tokens of the segment; 0 off the mask.

    Gradients are those of the formulas above, nothing is held constant: the ratio of a segment depends on each of its
    tokens. Read it once per segment (the turn modes of `losses.aggregate`) or average it over the segment's tokens.
    Beyond the clamp the gradient is 0.

    Args:
        new_bt: Log-probabilities of the sampled tokens under the policy that is trained, [b, t].
        old_bt: The same under the policy to compare with, [b, t].
        mask_bt: 1 on sampled tokens, [b, t].
        turn_bt: Index of the turn, [b, t]; read at level `turn` only, elsewhere it may be None.
        level: What a segment is.
        reduce: How a segment's tokens make one ratio; at level `token` both are the same.
        episode_b: Label of each row's episode. At level `sequence` the rows of an episode then share one ratio; None
            gives each row its own.

    Raises:
        ValueError: Shapes that differ, an unknown level or reduction, not one label per row, or sampled tokens without
            a turn.
    """
    require_one_of("level", level, ("token", "turn", "sequence"))
    require_one_of("reduce", reduce, ("product", "geometric"))
    require_same_shape(new_bt=new_bt, old_bt=old_bt, mask_bt=mask_bt)
    mask = mask_bt.bool()
    difference_bt = torch.where(mask, new_bt - old_bt, 0.0)
    if level == "token":
        pooled_bt = difference_bt
    elif level == "turn":
        pooled_bt = _pool(difference_bt, turns_on(mask, turn_bt), reduce)
    else:
        pooled_bt = _pool_rows(difference_bt, mask, episode_b, reduce)
    return pooled_bt.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def _pool(x_bt: Tensor, segment_bt: Tensor, reduce: Reduction) -> Tensor:
    """Add up or average over the tokens of a segment, and copy the outcome to all of them; segment -1 is none."""
    slot_bt = segment_bt + 1  # slot 0 takes what belongs to no segment
    shape = (len(x_bt), _width(segment_bt) + 1)
    sum_bk = x_bt.new_zeros(shape).scatter_add(1, slot_bt, x_bt)
    if reduce == "geometric":
        count_bk = x_bt.new_zeros(shape).scatter_add(1, slot_bt, torch.ones_like(x_bt))
        sum_bk = sum_bk / count_bk.clamp(min=1.0)
    return torch.where(segment_bt >= 0, sum_bk.gather(1, slot_bt), 0.0)


def _pool_rows(x_bt: Tensor, mask: Tensor, episode_b: Labels | None, reduce: Reduction) -> Tensor:
    """Add up or average over the sampled tokens of all rows of an episode, and copy the outcome to them."""
    index_b = torch.tensor(number_labels(episode_b, len(x_bt)), dtype=torch.long, device=x_bt.device)
    episodes = _width(index_b)
    sum_e = x_bt.new_zeros(episodes).index_add(0, index_b, x_bt.sum(1))
    if reduce == "geometric":
        count_e = x_bt.new_zeros(episodes).index_add(0, index_b, mask.sum(1).to(x_bt))
        sum_e = sum_e / count_e.clamp(min=1.0)
    return torch.where(mask, sum_e[index_b][:, None], 0.0)


@takes_arrays
def turns_on(mask: Tensor, turn_bt: Tensor | None) -> Tensor:
    """Return the index of the turn where the mask is true, and -1 elsewhere.

    Args:
        mask: Of any type, [b, t].
        turn_bt: Index of the turn, [b, t].

    Raises:
        ValueError: There are no turns, they have another shape, or a token of the mask has none.
    """
    if turn_bt is None:
        raise ValueError("turns are needed here: pass turn_bt, the turn's index on sampled tokens and -1 elsewhere")
    require_same_shape(mask_bt=mask, turn_bt=turn_bt)
    mask = mask.bool()
    segment_bt = torch.where(mask, turn_bt.long(), -1)
    if bool((mask & (segment_bt < 0)).any()):
        raise ValueError("turn_bt is negative on a sampled token: every token of the mask must belong to a turn")
    return segment_bt


@takes_arrays
def turn_starts(turn_bt: Tensor) -> Tensor:
    """Return true at the first token of each turn of each row, [b, t].

    A value read there belongs to the state before the reply: it has seen the observation and nothing of the action.
    """
    return _edge(turn_bt, "amin")


@takes_arrays
def turn_ends(turn_bt: Tensor) -> Tensor:
    """Return true at the last token of each turn of each row, [b, t]."""
    return _edge(turn_bt, "amax")


def _edge(turn_bt: Tensor, which: Literal["amin", "amax"]) -> Tensor:
    slot_bt = turn_bt.long() + 1
    position_bt = torch.arange(turn_bt.shape[1], device=turn_bt.device).expand_as(turn_bt).contiguous()
    edge_bk = position_bt.new_zeros(len(turn_bt), _width(turn_bt) + 1)
    edge_bk = edge_bk.scatter_reduce(1, slot_bt, position_bt, which, include_self=False)
    return (turn_bt >= 0) & (edge_bk.gather(1, slot_bt) == position_bt)


def _width(segment_bt: Tensor) -> int:
    return int(segment_bt.max()) + 1 if segment_bt.numel() else 0


def require_same_shape(**tensors: Tensor) -> None:
    """Raise a ValueError unless all tensors are two-dimensional and of one shape."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 2 for shape in shapes.values()):
        found = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"expected two dimensions [rows, positions], the same for all; found {found}")


def require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise a ValueError that lists what is known, unless the value is among it."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}; it can be {', '.join(known)}")
