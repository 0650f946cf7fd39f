"""Fakes that ship: small real environments, policies and models, for tests of AgentBench and of what is built on it.

`EchoEnv` and `BanditEnv` are environments like any other, small enough to reason about by hand; `ScriptedPolicy` plays
what it is told; `tiny_model` writes a transformers checkpoint with random weights. What is heavy is imported inside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentbench.core.env import Env, Step
from agentbench.core.errors import Failure
from agentbench.core.policy import EpisodeContext
from agentbench.core.registry import EnvEntry, Resolved, Variant, resolve
from agentbench.core.rewards import RewardSpec, RewardTerm
from agentbench.core.types import Message, Reply, Sampling

WORDS = ("red", "green", "blue", "north", "south", "east", "west", "one", "two", "three")


class EchoEnv(Env):
    """Say the word of each turn; one wrong word does not end the episode.

    Args:
        length: Words to say, one per turn.
        split: Part of the task, so that splits differ.
        fail_on: Seeds on whose first step the environment breaks, to try out failures.
    """

    def __init__(self, length: int = 3, split: str = "test", fail_on: Sequence[int] = ()) -> None:
        self.length = length
        self.split = split
        self.fail_on = frozenset(fail_on)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw the words."""
        super().reset(seed=seed, options=options)
        self.broken = seed in self.fail_on
        self.words = [str(word) for word in self.np_random.choice(WORDS, size=self.length)]
        self.said: list[bool] = []
        return self._ask(), self._info(valid=True)

    def step(self, action: str) -> Step:
        """Compare what was said with the word."""
        if self.broken:
            raise RuntimeError("the echo chamber collapsed")
        right = action.strip().lower() == self.words[len(self.said)]
        self.said.append(right)
        over = len(self.said) == self.length
        observation = "The end." if over else self._ask()
        return Step(observation, float(right) / self.length, over, False, self._info(valid=bool(action.strip())))

    def oracle(self) -> list[str]:
        """The words that are left."""
        return self.words[len(self.said) :]

    def random_action(self) -> str:
        """Any word."""
        return str(self.action_random.choice(WORDS))

    def _ask(self) -> str:
        return f"Word {len(self.said) + 1} of {self.length}: {self.words[len(self.said)]}"

    def _info(self, *, valid: bool) -> dict[str, Any]:
        over = len(self.said) == self.length
        last = float(self.said[-1]) if self.said else 0.0
        return {
            "success": all(self.said) if over else None,
            "valid": valid,
            "terms": {"right": last},
            "potential": 0.0 if over else sum(self.said) / self.length,
            "anchor": f"{self.words} {len(self.said)}",
        }


class BanditEnv(Env):
    """One turn, two arms: `left` pays 1 with probability `p`, `right` with 1 - `p`; anything else pays 0.

    Args:
        p: Probability that the left arm pays.
        split: Part of the task.
    """

    def __init__(self, p: float = 1.0, split: str = "test") -> None:
        self.p = p
        self.split = split

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Decide which arms pay this time."""
        super().reset(seed=seed, options=options)
        self.pays = "left" if self.np_random.random() < self.p else "right"
        return "Pull left or right.", {"valid": True}

    def step(self, action: str) -> Step:
        """Pull an arm."""
        arm = action.strip().lower()
        paid = float(arm == self.pays)
        info = {"success": bool(paid), "valid": arm in ("left", "right"), "terms": {"paid": paid}, "potential": 0.0}
        return Step("You won." if paid else "You lost.", paid, True, False, info)

    def oracle(self) -> list[str]:
        """The arm that pays."""
        return [self.pays]

    def random_action(self) -> str:
        """Either arm."""
        return str(self.action_random.choice(["left", "right"]))


ECHO = EnvEntry(
    name="echo",
    title="Echo",
    version=0,
    entry_point="agentbench.testing:EchoEnv",
    summary="Say the word that the observation names.",
    instructions="Answer every message with the word that it names, and nothing else.",
    max_turns=8,
    reward=RewardSpec((RewardTerm("right", 1 / 3),)),
    variants={
        "3": Variant({"length": 3}),
        "1": Variant({"length": 1}, reward=RewardSpec((RewardTerm("right"),))),
    },
)
BANDIT = EnvEntry(
    name="bandit",
    title="Bandit",
    version=0,
    entry_point="agentbench.testing:BanditEnv",
    summary="Pull the arm that pays.",
    instructions="Answer with left or right.",
    max_turns=1,
    reward=RewardSpec((RewardTerm("paid"),)),
    variants={"sure": Variant({"p": 1.0}), "fair": Variant({"p": 0.5})},
)


def resolve_fake(entry: EnvEntry, variant: str | None = None, split: str = "test", **kwargs: Any) -> Resolved:
    """Resolve an entry that is not installed, such as `ECHO`."""
    variant = variant or next(iter(entry.variants))
    return Resolved(entry, variant, split, {**entry.variants[variant].kwargs, **kwargs}, "agentbench.testing")


@dataclass
class ScriptedPolicy:
    """Answers with what a function makes of the last message.

    `fail_on` names reply numbers (counted over all episodes) at which the provider breaks instead.
    """

    answer: Callable[[str], str]
    name: str = "scripted-answers"
    version: int = 0
    fail_on: frozenset[int] = frozenset()
    replies: int = 0

    def start(self, episode: EpisodeContext) -> "ScriptedPolicy":
        """Every episode shares this object: it keeps nothing between turns."""
        return self

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Answer the last message."""
        self.replies += 1
        if self.replies - 1 in self.fail_on:
            raise Failure("provider", "the provider is having a bad day")
        return Reply(self.answer(messages[-1].content))

    async def close(self) -> None:
        """Nothing to free."""


Architecture = Literal["qwen2", "qwen3", "llama"]


def tiny_model(path: str | Path, architecture: Architecture = "qwen3", *, seed: int = 0) -> Path:
    """Write a transformers checkpoint folder with random weights: a real model, 0.1M parameters, byte tokenizer.

    Args:
        path: The folder to write.
        architecture: Which model class to make.
        seed: Decides the weights.

    Returns:
        The folder.
    """
    from agentbench.policies.init import init_model

    return init_model(path, architecture=architecture, hidden=32, layers=2, heads=2, intermediate=64, seed=seed)


__all__ = [
    "BANDIT",
    "ECHO",
    "Architecture",
    "BanditEnv",
    "EchoEnv",
    "ScriptedPolicy",
    "resolve",
    "resolve_fake",
    "tiny_model",
]
