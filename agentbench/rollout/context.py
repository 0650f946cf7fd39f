"""From a history of turns to the messages that a policy sees, and from its reply back to an action.

Evaluation, training and supervised data all go through here, so that a checkpoint meets the same prompts everywhere.

Context modes:
    full        every observation and reply so far
    window:k    the instructions, the last k turns and the present observation
    summary     the instructions, the memory that the policy itself wrote, and the present observation
Action formats:
    plain       the reply is the action (a reasoning model's <think>...</think> is not part of it)
    tagged      <think>...</think><answer>the action</answer>
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agentbench.core.errors import UsageError
from agentbench.core.types import Message

Format = Literal["plain", "tagged"]

_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
"""The closing tag may be missing: a server that stops at it may cut it off."""
_MEMORY = re.compile(r"<memory>(.*?)</memory>", re.DOTALL | re.IGNORECASE)
_THINK = re.compile(r"(<think>.*?(</think>|\Z)|\A(?:(?!<think>).)*</think>)", re.DOTALL | re.IGNORECASE)
"""Thoughts: closed, cut off, or opened by the prompt, so that the reply holds only their end."""

TAGGED = (
    "Think before you act. Write your thoughts between <think> and </think>, "
    "and then your action, alone, between <answer> and </answer>."
)
SUMMARY = (
    "You see only the present message, not the earlier ones. Write what you want to remember between <memory> and "
    "</memory>; you will be shown what you wrote last."
)
NO_ANSWER = "Your last reply had no action between <answer> and </answer>."


class Extracted(NamedTuple):
    """What a reply says in the language of the environment."""

    action: str
    well_formed: bool
    """False: the format's tags were missing; the action is empty."""


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """How conversations are built: part of what makes two results comparable."""

    mode: str = "full"
    format: Format = "plain"

    def __post_init__(self) -> None:
        if self.mode not in ("full", "summary") and self.window is None:
            raise UsageError(f"context mode {self.mode!r} is unknown; use full, window:K (K >= 0) or summary")
        if self.format not in ("plain", "tagged"):
            raise UsageError(f"action format {self.format!r} is unknown; use plain or tagged")

    @property
    def window(self) -> int | None:
        """The number of past turns shown, in `window:k` mode."""
        kind, _, turns = self.mode.partition(":")
        return int(turns) if kind == "window" and turns.isdecimal() else None


def split_thoughts(reply: str) -> list[tuple[bool, str]]:
    """Cut a reply into what was thought (True) and what was said (False), in order; joined, the parts are the reply."""
    parts, end = [], 0
    for thought in _THINK.finditer(reply) if "think>" in reply.lower() else ():
        parts += [(False, reply[end : thought.start()]), (True, thought.group())]
        end = thought.end()
    return [(is_thought, text) for is_thought, text in [*parts, (False, reply[end:])] if text]


class Conversation:
    """One episode as its policy sees it.

    Args:
        instructions: What the agent is told, whatever happens.
        spec: Context mode and action format.
    """

    def __init__(self, instructions: str, spec: ContextSpec) -> None:
        self.spec = spec
        self.memory = ""
        self._turns: list[tuple[Message, Message]] = []
        self._note = ""
        rules = [instructions.strip()]
        if spec.format == "tagged":
            rules.append(TAGGED)
        if spec.mode == "summary":
            rules.append(SUMMARY)
        self._system = Message("system", "\n\n".join(rule for rule in rules if rule))

    def messages(self, observation: str, images: tuple[bytes, ...] = ()) -> list[Message]:
        """Return the messages for this turn, the observation last."""
        self._present = Message("user", self._frame(observation), images)
        past = [message for turn in self._shown() for message in turn]
        return [self._system, *past, self._present]

    def extract(self, reply: str) -> Extracted:
        """Take in the reply to the last messages, and return the action in it."""
        self._turns.append((self._present, Message("assistant", reply)))
        self._note = ""
        if self.spec.mode == "summary":
            memories = _MEMORY.findall(reply)
            self.memory = memories[-1].strip() if memories else self.memory
            reply = _MEMORY.sub("", reply).strip()
        spoken = _THINK.sub("", reply) if "think>" in reply.lower() else reply
        if self.spec.format == "plain":
            return Extracted(spoken, True)
        answers = _ANSWER.findall(spoken)
        if not answers:
            self._note = NO_ANSWER
            return Extracted("", False)
        return Extracted(answers[-1].strip(), True)

    def _frame(self, observation: str) -> str:
        memory = f"Your memory:\n{self.memory}" if self.memory else ""
        return "\n\n".join(part for part in (memory, self._note, observation) if part)

    def _shown(self) -> list[tuple[Message, Message]]:
        if self.spec.mode == "full":
            return self._turns
        if self.spec.mode == "summary" or not self.spec.window:
            return []
        return self._turns[-self.spec.window :]
