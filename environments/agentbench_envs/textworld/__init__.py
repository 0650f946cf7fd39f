from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm

_INSTRUCTIONS = """\
You are playing a text adventure. You see where you are and what is there; you say what to do, and see what comes of it.

Each turn, answer with one command and nothing else. These are the commands, with the names of things as you see them:
look, inventory, go north (south, east, west), examine X, take X, take X from Y, drop X, put X on Y, insert X into Y,
open X, close X, unlock X with K, lock X with K, eat X"""

_HOUSE = _INSTRUCTIONS + ".\n"

_KITCHEN = _INSTRUCTIONS + (
    ", cook X with Y, slice X with Y, dice X with Y, chop X with Y, prepare meal.\n\n"
    "What is cooked on the stove is fried, in the oven roasted. What is cooked twice burns, and a wrong cut is final.\n"
)


def _custom(rooms: int, objects: int, length: int, max_turns: int, **kwargs: object) -> Variant:
    return Variant({"rooms": rooms, "objects": objects, "length": length, **kwargs}, max_turns=max_turns)


def _family(family: str, length: int, max_turns: int, **kwargs: object) -> Variant:
    instructions = _KITCHEN if family == "cooking" else None
    return Variant({"family": family, "length": length, **kwargs}, instructions=instructions, max_turns=max_turns)


def _z8(family: str, max_turns: int, **kwargs: object) -> Variant:
    return Variant(
        {"family": family, **kwargs},
        instructions=_KITCHEN if family == "cooking" else None,
        max_turns=max_turns,
        splits=("train", "valid", "test", "all"),
        needs=frozenset({"textworld"}),
        entry_point="agentbench_envs.textworld.genuine:GenuineEnv",
    )


ENTRY = EnvEntry(
    name="textworld",
    title="TextWorld",
    version=0,
    entry_point="agentbench_envs.textworld.env:TextWorldEnv",
    summary="Text adventures: find, carry, unlock, cook, in a house that is known only from words.",
    instructions=_HOUSE,
    max_turns=16,
    reward=RewardSpec(terms=(RewardTerm("score"), RewardTerm("progress", 0.0), RewardTerm("lost", 0.0))),
    variants={
        "w2-o3-q4": _custom(2, 3, 4, max_turns=16, goal="detailed"),
        "tiny": Variant(
            {"rooms": 2, "objects": 3, "length": 3, "compact": True}, instructions="Reach the goal.", max_turns=10
        ),
        "w2-o4-q3": _custom(2, 4, 3, max_turns=16),
        "w3-o5-q5": _custom(3, 5, 5, max_turns=24),
        "w4-o6-q8": _custom(4, 6, 8, max_turns=40),
        "w6-o10-q10": _custom(6, 10, 10, max_turns=50),
        "w8-o12-q12": _custom(8, 12, 12, max_turns=60),
        "simple-dense": _family("simple", 1, max_turns=50, rewards="dense", goal="detailed"),
        "simple-balanced": _family("simple", 1, max_turns=50, rewards="balanced"),
        "simple-sparse": _family("simple", 1, max_turns=50),
        "treasure-4": _family("treasure", 4, max_turns=24, rooms=4, objects=6),
        "treasure-6": _family("treasure", 6, max_turns=40, rooms=8, objects=12),
        "coin-8": _family("coin", 8, max_turns=40),
        "coin-16": _family("coin", 16, max_turns=80, distractors=1),
        "coin-24": _family("coin", 24, max_turns=120, distractors=2),
        "cooking-1": _family("cooking", 1, max_turns=40, rooms=2, distractors=2, rewards="dense"),
        "cooking-3": _family("cooking", 3, max_turns=80, rooms=5, distractors=3),
        "z8-w2-o3-q4": _z8("custom", 16, rooms=2, objects=3, length=4),
        "z8-w4-o6-q8": _z8("custom", 40, rooms=4, objects=6, length=8),
        "z8-simple-dense": _z8("simple", 50, rewards="dense"),
        "z8-treasure-5": _z8("treasure", 30, level=5),
        "z8-coin-5": _z8("coin", 25, level=5),
        "z8-cooking-2": _z8("cooking", 50, rooms=1, ingredients=2, skills="open+cook+cut"),
    },
    paths=frozenset({"games"}),
    licence="Apache-2.0",
    source="TextWorld 1.7.0 (Côté et al., 2018, arXiv 1806.11532); own code",
)
