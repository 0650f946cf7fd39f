from typing import Any

from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm

_INSTRUCTIONS = """\
You are in a room of a household, and you are given a task. You act by typed commands, one each turn:

look                                  look around
inventory                             what you carry
go to (receptacle)                    walk to a receptacle
open (receptacle)                     open a receptacle
close (receptacle)                    close a receptacle
take (object) from (receptacle)       pick up an object; you can carry one
move (object) to (receptacle)         put down what you carry, in or on a receptacle
examine (something)                   look at a receptacle, or at what you carry
use (object)                          switch on a lamp
heat (object) with (receptacle)       with a microwave
clean (object) with (receptacle)      with a sinkbasin
cool (object) with (receptacle)       with a fridge
slice (object) with (object)          with a knife

Name things with their numbers, for example: take mug 2 from desk 1. You see what is in or on a receptacle only when you
go there, and in some receptacles only when you open them. A command that is not possible is answered by "Nothing
happens."

Each turn, answer with exactly one command."""

_OLDER_GAMES = """

In some games there is no move; there it is: put (object) in/on (receptacle)"""


def _variant(**kwargs: Any) -> Variant:
    return Variant(kwargs)


ENTRY = EnvEntry(
    name="alfworld",
    title="ALFWorld",
    version=0,
    entry_point="agentbench_envs.alfworld.env:AlfworldEnv",
    summary="Household tasks in a text world: explore, find, treat and place objects.",
    instructions=_INSTRUCTIONS,
    max_turns=50,
    reward=RewardSpec(
        terms=(RewardTerm("won", 1.0), RewardTerm("conditions", 0.0), RewardTerm("nothing", 0.0)),
    ),
    splits=("train", "valid", "test-seen", "test-unseen"),
    variants={
        "synth": _variant(),
        "tiny": Variant(
            {
                "tasks": "place,examine", "rooms": "bedroom", "receptacles": 5, "distractors": 4, "alike": False,
                "shared": 0.0, "max_steps": 20, "short": True,
            },
            instructions="Do the task.",
            max_turns=20,
        ),
        "tiny-sight": Variant(
            {
                "tasks": "place,examine", "rooms": "bedroom", "receptacles": 5, "distractors": 4, "alike": False,
                "shared": 0.0, "max_steps": 20, "short": True, "sight": True,
            },
            instructions="Do the task.",
            max_turns=20,
        ),
        "place": _variant(tasks="place", receptacles=8, distractors=6, copies=0, closed=0.0, shared=0.0),
        "closed": _variant(tasks="place", shortest=5),
        "treat": _variant(tasks="clean,heat,cool"),
        "gather-2": _variant(tasks="gather"),
        "gather-3": _variant(tasks="gather", count=3),
        "gather-4": _variant(tasks="gather", count=4, receptacles=24, distractors=30),
        "large": _variant(receptacles=40, distractors=60, copies=3),
        "original": Variant(
            {"source": "original"},
            instructions=_INSTRUCTIONS + _OLDER_GAMES,
            splits=("train", "valid_seen", "valid_unseen"),
        ),
    },
    paths=frozenset({"data"}),
    licence="Apache-2.0",
    source="ALFWorld (Shridhar et al., ICLR 2021, arXiv 2010.03768), alfworld 0.4.2; own code and scenes",
)  # fmt: skip
