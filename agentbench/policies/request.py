"""What a session asks of the engine, and what it gets: one reply in the making."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from agentbench.core.types import Finish, Sampling
from agentbench.policies.forward import Lane
from agentbench.policies.sampling import Uniforms

Ended = Callable[[list[int]], Finish | None]
"""Tells whether a reply ended, given its tokens so far."""


@dataclass(eq=False, slots=True)
class Request:
    """One reply in the making."""

    lane: Lane
    context_ids: list[int]
    """The whole context, prompt included."""
    sampling: Sampling
    room: int
    """Tokens that the reply may have."""
    seed: int
    ended: Ended
    future: "Future[Draft]" = field(default_factory=Future)
    draft: "Draft" = field(default_factory=lambda: Draft())
    uniforms: Uniforms = field(init=False)
    waited: int = 0
    """Rounds at the head of the queue."""

    def __post_init__(self) -> None:
        self.uniforms = Uniforms(self.seed)


@dataclass(slots=True)
class Draft:
    """What was sampled."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    finish: Finish = "stop"
    prefilled: int = 0
    """Prompt tokens that had to go through the model; the others were cached."""
    version: int = 0

    def add(self, token: int, logprob: float, entropy: float, value: float | None) -> None:
        """Append a token."""
        self.token_ids.append(token)
        self.logprobs.append(logprob)
        self.entropies.append(entropy)
        if value is not None:
            self.values.append(value)
