"""What a leaderboard row stands on: one evaluation, packed so small that it can lie in a repository.

A bundle keeps what playing again cannot find out: who played, under which circumstances, what was planned, and for
each episode the replies, what was paid, how it ended, and the last link of its hash chain. Observations, terms and all
other links come back when the replies are played again. Thoughts and token ids stay in the run directory: they are no
evidence of anything that a reader could check.

    <first 16 digits of its sha256>.jsonl.gz
        line 1     the head: declaration, configuration, lock
        line 2 ..  every planned episode, in the order of the plan
"""

import gzip
import hashlib
import json
import re
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agentbench.core.errors import IntegrityError, RunInvalid
from agentbench.core.plain import encodable
from agentbench.core.reading import unpack
from agentbench.core.records import Planned, Row, RunDirectory, digest, write_bytes
from agentbench.core.registry import environments
from agentbench.core.types import End, Reply, Trajectory
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.replay import Draw, Repetition, Replayed, circumstances_difference, setting_of
from agentbench.rollout.context import ContextSpec, Conversation

# Bounded, so that sums and means of them are finite.
Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[float, Field(ge=-1e100, le=1e100)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Declaration(_Strict):
    """What the people behind a row say of it. No file can prove it; it is bound to the row all the same."""

    name: Annotated[str, Field(min_length=1)]
    """What the table calls it."""
    algorithm: str = ""
    """What it was trained with."""
    base: str = ""
    """The checkpoint that training began with."""
    parameters: Count | None = None
    training: str = ""
    """On what it was trained: environment, split, recipe."""
    by: str = ""
    """Who measured."""
    link: str = ""


class _Read(BaseModel):
    """What a row reads in a part of a lock; further fields are kept as they are."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Limits(_Read):
    max_turns: int


class _Context(_Read):
    mode: str
    format: str


class _Sampling(_Read):
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int


class _Hardware(_Read):
    machine: str
    system: str


class _Lock(_Read):
    env: str
    split: str
    panel: str
    policy: str
    agentbench: str
    limits: _Limits
    context: _Context
    sampling: _Sampling
    hardware: _Hardware
    device: str | None = None
    weights: dict[str, str] = {}
    git_commit: str | None
    git_dirty: bool | None


class Head(_Strict):
    """The first line of a bundle."""

    bundle: Literal[1] = 1
    """Version of the format."""
    declared: Declaration
    config: dict[str, Any]
    """The keys of the configuration that may change a result."""
    lock: dict[str, Any]
    deterministic: bool
    """Whether its actions can be played again to the letter."""
    date: str
    """The day on which the run ended (UTC)."""
    wall_seconds: float | None
    """From start to end; None for a run that was interrupted, whose time nobody took."""
    attempts: Count
    """At all planned episodes, those that infrastructure broke among them."""

    @field_validator("lock")
    @classmethod
    def _check_lock(cls, lock: dict[str, Any]) -> dict[str, Any]:
        _Lock.model_validate(lock)
        return lock

    @field_validator("config")
    @classmethod
    def _check_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        EvalConfig.model_validate(config)
        own = own_file(config)
        if own:
            raise ValueError(f"it was played in {own}, and no path that a bundle names is opened")
        return config


class Episode(_Strict):
    """One planned episode: the attempt at it that counts, or its last one where none was scored."""

    task: str
    seed: Count
    trial: Count
    retry: Count = 0
    end: End
    success: bool | None = None
    rewards: list[Number]
    """Per turn."""
    replies: list[str]
    """Per turn, the shortest reply from which the run's format takes the same action."""
    tokens: list[Count]
    """Per turn, sampled."""
    prompt_tokens: Count = 0
    invalid: Count = 0
    """Turns whose action was malformed or illegal."""
    seconds: tuple[Number, Number]
    """In the environment and in the policy, waiting for others included."""
    cause: str | None = None
    """What broke, where infrastructure did."""
    hash: str
    """The last link of the chain."""

    @classmethod
    def of(cls, trajectory: Trajectory, row: Row, spec: ContextSpec) -> Self:
        """Shorten a recorded episode."""
        turns = trajectory.turns
        return cls(
            task=trajectory.task,
            seed=trajectory.seed,
            trial=trajectory.trial,
            retry=trajectory.retry,
            end=trajectory.end,
            success=trajectory.success,
            rewards=[turn.reward for turn in turns],
            replies=[encodable(spoken(turn.reply.text, spec)) for turn in turns],
            tokens=[turn.reply.n_tokens for turn in turns],
            prompt_tokens=row["prompt_tokens"],
            invalid=sum(not turn.valid for turn in turns),
            seconds=(round(row["env_seconds"], 3), round(row["policy_seconds"], 3)),
            cause=trajectory.failure["cause"] if trajectory.failure else None,
            hash=trajectory.head_hash,
        )

    @property
    def planned(self) -> Planned:
        """What was planned."""
        return Planned(digest(self.task, self.trial)[:16], self.task, self.seed, self.trial)

    @property
    def row(self) -> Row:
        """The row of the attempt, as `rows.row_of` makes it."""
        env_seconds, policy_seconds = self.seconds
        return {
            "key": self.planned.key,
            **{name: getattr(self, name) for name in ("task", "seed", "trial", "retry", "end", "success", "invalid")},
            "scored": self.end not in ("cancelled", "failure"),
            "reward": sum(self.rewards),
            "turns": len(self.replies),
            "tokens": sum(self.tokens),
            "prompt_tokens": self.prompt_tokens,
            "env_seconds": env_seconds,
            "policy_seconds": policy_seconds,
            "failure": {"cause": self.cause} if self.cause else None,
            "hash": self.hash,
        }


class Bundle:
    """One evaluation, packed.

    Args:
        head: Who, what and when.
        episodes: Every planned episode, in the order of the plan.
    """

    def __init__(self, head: Head, episodes: tuple[Episode, ...]) -> None:
        self.head = head
        self.episodes = episodes
        self.plan = tuple(episode.planned for episode in episodes)
        self.rows = [episode.row for episode in episodes]

    @classmethod
    def pack(cls, run: RunDirectory, declared: Declaration) -> Self:
        """Pack a run that ended.

        Raises:
            RunInvalid: It did not end, or too many of its episodes were not scored.
            IntegrityError: What it says of its circumstances cannot be true.
        """
        state, rows, lock = run.state, run.rows(), run.lock
        if state["status"] != "complete":
            raise RunInvalid(f"{run.path} is {state['status']}: only a complete run goes on a board")
        counting = {**{row["key"]: row for row in rows}, **run.scored()}
        whole = len({row["shard"] for row in rows}) == 1
        try:
            spec = ContextSpec(**lock["context"])
            head = Head(
                declared=declared,
                config=dict(state["config"]),
                lock=dict(lock),
                deterministic=setting_of(state["config"], lock).resolved.entry.deterministic,
                date=time.strftime("%Y-%m-%d", time.gmtime(state["ended"])),
                wall_seconds=round(state["ended"] - state["began"], 1) if whole else None,
                attempts=len(rows),
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise IntegrityError(f"{run.path}: its circumstances cannot be true: {_reason(error)}") from error
        missing = [planned.key for planned in run.plan() if planned.key not in counting]
        if missing:
            raise RunInvalid(f"{run.path} says complete, and {len(missing)} planned episodes have no row")
        attempts = (counting[planned.key] for planned in run.plan())
        return cls(head, tuple(Episode.of(run.trajectory(row), row, spec) for row in attempts))

    @classmethod
    def read(cls, folder: Path, sha256: str) -> Self:
        """Read the bundle with this hash.

        Raises:
            IntegrityError: It is missing, damaged, no bundle, without a scored episode, or has another hash.
        """
        path = folder / name_of(sha256)
        try:
            packed = path.read_bytes()
            first, *lines = unpack(packed).splitlines()
            bundle = cls(Head.model_validate_json(first), tuple(Episode.model_validate_json(line) for line in lines))
        except (OSError, zlib.error, ValueError) as error:
            raise IntegrityError(f"the bundle {path} cannot be read: {_reason(error)}") from error
        if hashlib.sha256(packed).hexdigest() != sha256:
            raise IntegrityError(f"the bundle {path} has another content than its hash says")
        if not any(row["scored"] for row in bundle.rows):
            raise IntegrityError(f"the bundle {path} holds no scored episode")
        return bundle

    def write(self, folder: Path) -> str:
        """Write the bundle into a folder, under its own hash, and return the hash."""
        lines = [self.head, *self.episodes]
        text = "".join(json.dumps(line.model_dump(exclude_defaults=True), sort_keys=True) + "\n" for line in lines)
        packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
        sha256 = hashlib.sha256(packed).hexdigest()
        write_bytes(folder / name_of(sha256), packed)
        return sha256

    @property
    def evidence(self) -> Evidence:
        """What it proves, as of a run directory."""
        head, scored = self.head, {row["key"]: row for row in self.rows if row["scored"]}
        place = Path(head.declared.name)
        return Evidence(place, "complete", head.config, head.lock, self.plan, scored, head.attempts)

    def difference(self, draw: Draw = plan_tasks) -> str | None:
        """Say where plan and lock are not what the configuration asks for; None if they are.

        Args:
            draw: Plans episodes; see `replay.circumstances_difference`.

        Raises:
            UsageError: The environment is not here, or in another version.
        """
        config, lock = self.head.config, self.head.lock
        if self.head.deterministic != setting_of(config, lock).resolved.entry.deterministic:
            return "the environment is not as deterministic as the bundle says"
        return circumstances_difference(config, lock, self.plan, draw)

    def replay(self, *, limit: int | None = None) -> Iterator[Replayed]:
        """Play the scored episodes again and yield what was found; no model takes part.

        Args:
            limit: Episodes to replay; None replays all.

        Raises:
            UsageError: The environment is not deterministic, or is here in another version.
        """
        scored = [episode for episode in self.episodes if episode.row["scored"]]
        with Repetition(setting_of(self.head.config, self.head.lock)) as repetition:
            for episode in scored[:limit]:
                yield Replayed(episode.planned.key, _difference(repetition, episode))


def name_of(sha256: str) -> str:
    """Return the file name of the bundle with this hash."""
    return f"{sha256[:16]}.jsonl.gz"


def own_file(config: Mapping[str, Any]) -> str | None:
    """Say which file or folder of the player's own a configuration names; None if it names none.

    Nobody else could check such a run. Nor may a stranger's record choose what is opened, let alone run, where it is
    checked.
    """
    name, given = str(config["env"]), config.get("env_args", {})
    if ".py" in name:
        return name
    entry = environments().get(re.split("[/@:]", name)[0])
    own = sorted(entry.paths & given.keys()) if entry else ()
    return f"{own[0]} = {given[own[0]]}" if own else None


def spoken(reply: str, spec: ContextSpec) -> str:
    """Return the shortest text from which a format takes the same action as from this reply.

    Example:
        >>> spoken("<think>The box is left of me.</think>left", ContextSpec())
        'left'
    """

    def extract(text: str) -> tuple[str, bool]:
        conversation = Conversation("", spec)
        conversation.messages("")
        return conversation.extract(text)

    meant = extract(reply)
    shorter = (meant[0], f"<answer>{meant[0]}</answer>")
    return next((text for text in shorter if extract(text) == meant), reply)


def _reason(error: Exception) -> str:
    """Say in one line why something was refused."""
    return error.errors()[0]["msg"].removeprefix("Value error, ") if isinstance(error, ValidationError) else str(error)


def _difference(repetition: Repetition, episode: Episode) -> str | None:
    lengths = {len(episode.rewards), len(episode.replies), len(episode.tokens)}
    if len(lengths) > 1:
        return "it has not as many rewards as replies"
    replies = [
        Reply(text, usage={"completion_tokens": tokens})
        for text, tokens in zip(episode.replies, episode.tokens, strict=True)
    ]
    again = repetition.play(episode.planned, replies, episode.end)
    for k, (then, turn) in enumerate(zip(episode.rewards, again.turns, strict=False)):
        if turn.reward != then:
            return f"turn {k}: the reward is {turn.reward!r}, recorded is {then!r}"
    if again.failure:
        return f"turn {len(again.turns)}: {again.failure['message']}"
    ends: list[tuple[str, Any, Any]] = [
        ("number of turns", len(episode.replies), len(again.turns)),
        ("end", episode.end, again.end),
        ("success", episode.success, again.success),
        ("number of invalid actions", episode.invalid, sum(not turn.valid for turn in again.turns)),
        ("hash", episode.hash, again.head_hash),
    ]
    return next((f"the {name} is {now!r}, recorded is {then!r}" for name, then, now in ends if then != now), None)
