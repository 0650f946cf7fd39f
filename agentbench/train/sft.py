"""Demonstrations: a teacher plays, and is written down as if the model had.

The teacher is the oracle, or recorded episodes of whoever played well, a person for example. A demonstrator is a policy
like any other. It renders each conversation with the model's own chat template and answers with the teacher's action,
tokenised once; its trajectories look like rollouts and go through the same batch and the same
update. A supervised warm start therefore trains in exactly the contexts that the model will meet when it plays.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from agentbench.core.errors import IntegrityError, UsageError
from agentbench.core.policy import EpisodeContext
from agentbench.core.records import Planned, Row, RunDirectory, digest
from agentbench.core.registry import Resolved
from agentbench.core.seeding import Part, generator
from agentbench.core.types import Message, Reply, Sampling, Trajectory
from agentbench.policies import scripted
from agentbench.policies.chat import ChatTemplate, Conversation
from agentbench.rollout.context import Format


class Demonstrator:
    """A teacher, speaking through a model's chat template.

    Args:
        template: The model's.
        format: How an action is wrapped in a reply.
        teacher: Recorded episodes; None for the oracle.
    """

    name = "demonstrator"
    version = 0
    scripted = True

    def __init__(
        self,
        template: ChatTemplate,
        format: Format,  # noqa: A002 - the option's name
        teacher: "Recordings | None" = None,
    ) -> None:
        self._template = template
        self._format = format
        self._teacher = scripted.oracle() if teacher is None else teacher.policy

    def start(self, episode: EpisodeContext) -> "_Demonstration":
        """Open a session."""
        return _Demonstration(self._template, self._format, self._teacher.start(episode))


class _Demonstration:
    def __init__(self, template: ChatTemplate, format: Format, teacher: scripted.ScriptedSession) -> None:  # noqa: A002
        self._template = template
        self._format = format
        self._conversation = Conversation(template)
        self._teacher = teacher

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        action = (await self._teacher.reply(messages, sampling, seed=seed)).text
        text = action if self._format == "plain" else f"<think></think><answer>{action}</answer>"
        prompt = self._conversation.prompt(messages)
        ids = self._template.reply_ids(text)
        self._conversation.accept(prompt, ids)
        return Reply(
            text,
            prompt_ids=tuple(prompt.added_ids),
            token_ids=tuple(ids),
            logprobs=(0.0,) * len(ids),
            fresh_context=prompt.fresh,
        )

    async def close(self) -> None:
        await self._teacher.close()


def require_room(demonstrated: Iterable[Trajectory], max_tokens: int) -> None:
    """Refuse to teach replies that the policy could not finish when it plays.

    Raises:
        UsageError: A reply is longer than `max_tokens`; the message says how long the longest is.
    """
    longest = max(len(turn.reply.token_ids) for trajectory in demonstrated for turn in trajectory.turns)
    if longest > max_tokens:
        raise UsageError(
            f"rollout.max_tokens = {max_tokens} cuts what is demonstrated: replies of this model's tokens are up to"
            f" {longest} long; set rollout.max_tokens = {longest} or more"
        )


class Recordings:
    """The episodes of a run that succeeded, as a teacher. They are played again, in the environment that is trained on.

    Variants may differ in how a page is shown: who shopped in a browser can teach a model that reads text.

    Args:
        path: A run of `agentbench eval` or `agentbench play`.
        resolved: The environment that is trained on, in its train split.

    Raises:
        UsageError: There is no such run, it is of another environment or another split, or nothing in it succeeded.
    """

    def __init__(self, path: Path, resolved: Resolved) -> None:
        self.path = path
        self._run = RunDirectory.open(path)
        lock = self._run.lock
        if _family(lock.get("env", "")) != _family(resolved.id) or lock.get("split") != "train":
            found = f"{lock.get('env')}:{lock.get('split')}"
            raise UsageError(f"demonstrations: {path} is a run of {found}, expected one of {resolved.id}:train")
        self._rows = [row for row in self._run.scored().values() if row["success"]]
        if not self._rows:
            raise UsageError(f"demonstrations: no episode of {path} succeeded; there is nothing to learn from")
        self._row_of: dict[str, Row] = {}
        self.policy = scripted.Scripted(f"replay-{path.name}", self._start)

    def plan(self, episodes: int, *name: Part) -> list[Planned]:
        """Draw recorded episodes, each once before any of them twice.

        Args:
            episodes: How many.
            *name: What the draw is for: root seed, stage, update.
        """
        draw = generator("demonstrations", *name)
        rounds = -(-episodes // len(self._rows))
        order = [index for _ in range(rounds) for index in draw.permutation(len(self._rows)).tolist()][:episodes]
        keys = [digest("demonstration", *name, number)[:16] for number in range(episodes)]
        self._row_of = dict(zip(keys, (self._rows[index] for index in order), strict=True))
        return [Planned(key, row["task"], row["seed"], 0) for key, row in self._row_of.items()]

    def check(self, played: Iterable[Trajectory]) -> None:
        """Make sure that what succeeded succeeds again.

        Raises:
            IntegrityError: It does not: the environment's arguments, the turn cap or the context differ.
        """
        for trajectory in played:
            if not trajectory.success:
                raise IntegrityError(
                    f"{self.path}: what was recorded for task {trajectory.task} ends with {trajectory.end} and without"
                    " success when it is played again; train on the environment and the turn cap of the recording"
                )

    def _start(self, episode: EpisodeContext) -> scripted.Chooser:
        row = self._row_of[episode.key]
        return scripted.recited(turn.action for turn in self._run.trajectory(row).turns)


def _family(env: str) -> tuple[str, str]:
    """Return name and version of `name/variant@version`."""
    name, _, version = env.partition("@")
    return name.partition("/")[0], version
