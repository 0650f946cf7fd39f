from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm

_INSTRUCTIONS = """\
You are solving a Sokoban puzzle. Push every box onto a target.

The board is a grid of characters:
#  wall
_  floor
O  target
X  box
√  box on a target
P  you
S  you, standing on a target

You move one cell up, down, left or right. Walking into a box pushes it one cell further in the same direction, if the
cell behind it is floor or a target. You cannot pull boxes, push two at once, or walk through walls. A box in a corner
that is not a target is stuck for good, so think before you push.

"""

_ONE_MOVE = _INSTRUCTIONS + "Each turn, answer with exactly one word: up, down, left or right."

_FIVE_MOVES = _INSTRUCTIONS + (
    "Each turn, answer with one to five moves, each of them up, down, left or right, separated by ||, for example: "
    "up || up || right. They are played in this order."
)


def _variant(rows: int, boxes: int, max_steps: int, search_depth: int, **kwargs: object) -> Variant:
    size = {"rows": rows, "cols": rows, "boxes": boxes}
    return Variant({**size, "max_steps": max_steps, "search_depth": search_depth, **kwargs}, max_turns=max_steps)


ENTRY = EnvEntry(
    name="sokoban",
    title="Sokoban",
    version=0,
    entry_point="agentbench_envs.sokoban.env:SokobanEnv",
    summary="Planning with irreversible moves: push boxes onto targets on a grid drawn in characters.",
    instructions=_ONE_MOVE,
    max_turns=40,
    reward=RewardSpec(
        terms=(
            RewardTerm("steps", -0.1),
            RewardTerm("onto", 1.0),
            RewardTerm("off", -1.0),
            RewardTerm("finished", 10.0),
            RewardTerm("malformed", -0.1),
        )
    ),
    variants={
        "6x6-1": _variant(6, 1, max_steps=20, search_depth=30, min_moves=3, max_moves=15),
        "easy": _variant(6, 1, max_steps=20, search_depth=30, min_moves=2, max_moves=10),
        "tiny": Variant(
            {"max_moves": 10, "max_steps": 15, "actions_per_turn": 3, "compact": True},
            instructions="Push X onto O.",
            max_turns=15,
        ),
        "6x6-2": _variant(6, 2, max_steps=40, search_depth=30),
        "7x7-2": _variant(7, 2, max_steps=60, search_depth=50),
        "8x8-2": _variant(8, 2, max_steps=60, search_depth=50),
        "8x8-3": _variant(8, 3, max_steps=60, search_depth=50),
        "10x10-3": _variant(10, 3, max_steps=60, search_depth=50),
        "10x10-4": _variant(10, 4, max_steps=60, search_depth=50),
        "ragen": Variant(
            {"search_depth": 300, "max_moves": 10, "max_steps": 10, "actions_per_turn": 5},
            instructions=_FIVE_MOVES,
            max_turns=5,
        ),
        "gym": Variant({"rows": 10, "cols": 10, "boxes": 4, "generator": "gym", "max_steps": 120}, max_turns=120),
        "files": Variant(
            {"levels": "shipped", "max_steps": 120}, max_turns=120, splits=("train", "valid", "test", "all")
        ),
    },
    paths=frozenset({"levels"}),
    licence="Apache-2.0",
    source="gym-sokoban 0.0.6 (Schrader, 2018), RAGEN (arXiv 2504.20073); own code",
)
