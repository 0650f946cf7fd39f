"""The row of an attempt in episodes.jsonl: what is known of an episode without opening its trajectory."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from agentbench.core.errors import IntegrityError
from agentbench.core.reading import Shape, check_of
from agentbench.core.types import Trajectory, Turn

_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("key", "task", "end", "hash", "shard"), str),
    **dict.fromkeys(("seed", "trial", "retry", "turns", "invalid", "offset", "length"), int),
    **dict.fromkeys(("reward", "tokens", "prompt_tokens", "env_seconds", "policy_seconds"), float),
    "scored": bool,
    "success": bool | None,
    "failure": dict[str, Any] | None,
    "terms": dict[str, float],
    "sandbox": dict[str, Any] | None,
}
"""What every row says, and of which kind it is."""

MOST_TURNS = 1_000_000
"""What an episode may have: figures count by turn."""

# Rows of earlier versions have no terms and no sandbox.
_SHAPE = Shape({name: check_of(kind) for name, kind in _KINDS.items()}, optional=("terms", "sandbox"))


def row_of(trajectory: Trajectory) -> dict[str, Any]:
    """Return what an attempt's row says of its trajectory; key and place on disk come with the writing."""
    turns = trajectory.turns
    return {
        "task": trajectory.task,
        "seed": trajectory.seed,
        "trial": trajectory.trial,
        "retry": trajectory.retry,
        "end": trajectory.end,
        "scored": trajectory.scored,
        "success": trajectory.success,
        "reward": trajectory.total_reward,
        "terms": totals(turns),
        "turns": len(turns),
        "invalid": sum(not turn.valid for turn in turns),
        "tokens": sum(turn.reply.n_tokens for turn in turns),
        "prompt_tokens": sum(turn.reply.usage.get("prompt_tokens", len(turn.reply.prompt_ids)) for turn in turns),
        "env_seconds": sum(turn.env_seconds for turn in turns),
        "policy_seconds": sum(turn.policy_seconds for turn in turns),
        "failure": trajectory.failure,
        "sandbox": trajectory.sandbox,
        "hash": trajectory.head_hash,
    }


def totals(turns: Sequence[Turn]) -> dict[str, float]:
    """Add each raw term of the reward up over an episode's turns."""
    sums: dict[str, float] = defaultdict(float)
    for turn in turns:
        for name, value in turn.terms.items():
            sums[name] += value
    return dict(sorted(sums.items()))


def require_row(place: str, row: Mapping[str, Any]) -> None:
    """Make sure that a row says what every row says.

    Args:
        place: Where it stands, for the message.
        row: The row.

    Raises:
        IntegrityError: Something is missing, of another kind, or no finite number.
    """
    misfit = _SHAPE.misfit(row)
    if misfit is None:
        false = next((name for name in _KINDS if name in row and not _could_be_true(name, row[name])), None)
        misfit = false and f"has no {false} that could be true"
    if misfit:
        raise IntegrityError(f"{place} {misfit}")


def _could_be_true(name: str, value: Any) -> bool:
    if name == "failure" and value is not None:
        return "cause" in value
    if name == "turns":
        return bool(0 <= value <= MOST_TURNS)
    numbers = value.values() if name == "terms" else [value] if isinstance(value, float) else []
    return all(map(math.isfinite, numbers))
