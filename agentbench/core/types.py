"""The words of an episode: Message, Reply, Turn, Trajectory.

    task   --reset-->  observation_0
    turn k:            observation_k  --policy-->  reply_k  --context-->  action_k  --step-->  reward_k, observation_k+1

A *turn* is one observation and the whole reply to it; its reward, terms and validity are what the environment
answered to that reply. A *trajectory* is the record of one attempt at one task. Tokens that a policy sampled are kept
as ids, with their log-probabilities and entropies, and are never made again from text.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length"]
"""Why a reply ended: the policy stopped, or its token allowance did."""
End = Literal["terminated", "truncated", "max_turns", "max_tokens", "max_invalid", "timeout", "cancelled", "failure"]
"""Why an episode ended. Everything but `cancelled` and `failure` is scored."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, as chat templates and servers know it."""

    role: Role
    content: str
    images: tuple[bytes, ...] = ()
    """PNG files, for policies that see."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is drawn. Log-probabilities are recorded before top-p and top-k, at T = 1 where T = 0."""

    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    max_tokens: int = 256
    """Tokens a reply may have."""
    stop: tuple[str, ...] = ()
    """Texts that end a reply; they stay part of it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a policy answered in one turn, and how."""

    text: str
    prompt_ids: tuple[int, ...] = ()
    """Only the tokens added since the last reply: its message's closing, the observation, the opening of this one."""
    token_ids: tuple[int, ...] = ()
    """The sampled tokens, the stop token included."""
    logprobs: tuple[float, ...] = ()
    """Per sampled token: log softmax(logits / T), before top-p and top-k; at T = 1 for greedy replies."""
    entropies: tuple[float, ...] = ()
    """Per sampled token, in nats, of the same distribution."""
    values: tuple[float, ...] | None = None
    """Per sampled token, the critic's estimate, where there is one."""
    fresh_context: bool = False
    """True: `prompt_ids` start a new context; they do not extend the one before."""
    finish: Finish = "stop"
    policy_version: int = 0
    """The number of weight updates behind this reply."""
    usage: dict[str, float] = field(default_factory=dict)
    """What the reply cost: `prompt_tokens`, `completion_tokens`, ..."""

    @property
    def n_tokens(self) -> int:
        """Tokens sampled, as far as the policy says."""
        return len(self.token_ids) or int(self.usage.get("completion_tokens", 0))


@dataclass(slots=True)
class Turn:
    """One observation, the whole reply to it, and what the environment made of it."""

    observation: str
    """What the policy was shown before it replied."""
    reply: Reply
    action: str
    """What was sent to the environment: the reply's text, or the part that the action format extracts."""
    reward: float
    terms: dict[str, float]
    """Raw components of the reward."""
    potential: float
    """Phi of the state in which the turn began."""
    valid: bool
    info: dict[str, Any]
    """What else the environment said, without the keys that have a field of their own."""
    env_seconds: float
    policy_seconds: float
    hash: str
    """sha256 over the previous turn's hash and this turn's observation, action, reward, terms and end."""
    advantages: tuple[float, ...] | None = None
    """Per sampled token, what a trainer made of the reward; None where nothing was trained."""


@dataclass(slots=True)
class Trajectory:
    """The record of one episode."""

    env: str
    """`name/variant@version`."""
    split: str
    task: str
    """The task's key: equal keys are equal tasks."""
    seed: int
    """What the environment was reset with."""
    trial: int = 0
    retry: int = 0
    turns: list[Turn] = field(default_factory=list)
    final_observation: str = ""
    final_potential: float = 0.0
    """Phi of the last state; 0 where the environment ended."""
    last_value: float | None = None
    """The critic's estimate of what would have followed a cut-off that is bootstrapped; else None."""
    success: bool | None = None
    """None where the environment cannot tell, or nothing was scored."""
    failure: dict[str, str] | None = None
    """`cause` and `message` of an infrastructure failure."""
    sandbox: dict[str, Any] | None = None
    """What isolation it was played under: kind, image, digest, limits, network; None where there was none."""
    end: End = "cancelled"

    @property
    def scored(self) -> bool:
        """True if the attempt counts: it was neither cancelled nor broken by infrastructure."""
        return self.end not in ("cancelled", "failure")

    @property
    def total_reward(self) -> float:
        """The undiscounted sum of the native rewards."""
        return sum(turn.reward for turn in self.turns)

    @property
    def head_hash(self) -> str:
        """The hash of the last turn; empty for an episode without turns. Equal heads mean equal trajectories."""
        return self.turns[-1].hash if self.turns else ""
