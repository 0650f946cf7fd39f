"""The one source of randomness: seeds derived by hashing names.

Every random draw of a run goes back to one root seed through `derive`. Names, not call order, decide the seed of a
task, a reply or a level, so that adding an episode, a thread or a retry changes nobody else's draws.
"""

import hashlib
import json

import numpy as np

Part = str | int | float | bool | None


def derive(*parts: Part) -> int:
    """Return a seed in [0, 2**63) that depends on the parts and on nothing else.

    Args:
        *parts: What the seed is for, from general to particular. Types count: `1` and `"1"` differ.

    Example:
        >>> derive("task", 0, 7) == derive("task", 0, 7) != derive("task", 0, 8)
        True
    """
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(*parts: Part) -> np.random.Generator:
    """Return a fresh numpy generator seeded with `derive(*parts)`."""
    return np.random.default_rng(derive(*parts))
