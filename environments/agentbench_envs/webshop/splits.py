"""Which goals are for training, validation and test."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from agentbench_envs.webshop.products import Goal

SPLITS: Final = ("train", "valid", "test")


def original_splits(goals: Sequence[Goal]) -> dict[str, Sequence[int]]:
    """Split as the original's users do: 500 goals for test, 1000 for validation, the rest for training.

    A list that is too short for that is split by content.
    """
    if len(goals) <= 1500:
        return by_content([SPLITS.index(split_of(goal)) for goal in goals])
    return {"test": range(500), "valid": range(500, 1500), "train": range(1500, len(goals))}


def by_content(splits: Sequence[int]) -> dict[str, Sequence[int]]:
    """Gather the goals of each split; `splits` holds the number of each goal's."""
    return {split: np.flatnonzero(np.asarray(splits) == number).tolist() for number, split in enumerate(SPLITS)}


def split_of(goal: Goal) -> str:
    """Return a goal's split, the same for all that are nearly alike: 80 % train, 10 % valid, 10 % test."""
    family = goal.get("family") or "|".join([goal["query"], *sorted(goal["attributes"])])
    share = int(hashlib.sha256(family.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16) / 16**8
    return "train" if share < 0.8 else "valid" if share < 0.9 else "test"


def content_of(goal: Goal) -> str:
    """Name a goal by what it is: the product, the attributes and options that are wanted, and the ceiling."""
    options = goal["goal_options"]
    wanted = sorted(options.items()) if isinstance(options, dict) else sorted(options)
    parts = [goal["asin"], sorted(goal["attributes"]), wanted, goal["price_upper"]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
