"""Demonstrations: the oracle plays, and is written down as if the model had.

A demonstrator is a policy like any other. It renders each conversation with the model's own chat template and answers
with the oracle's action, tokenised once; its trajectories look like rollouts and go through the same batch and the same
update. A supervised warm start therefore trains in exactly the contexts that the model will meet when it plays.
"""

from collections.abc import Sequence

from agentbench.core.policy import EpisodeContext
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies import scripted
from agentbench.policies.chat import ChatTemplate, Conversation
from agentbench.rollout.context import Format


class Demonstrator:
    """The oracle, speaking through a model's chat template.

    Args:
        template: The model's.
        format: How an action is wrapped in a reply.
    """

    name = "oracle"
    version = 0
    scripted = True

    def __init__(self, template: ChatTemplate, format: Format) -> None:  # noqa: A002 - the option's name
        self._template = template
        self._format = format
        self._oracle = scripted.oracle()

    def start(self, episode: EpisodeContext) -> "_Demonstration":
        """Open a session."""
        return _Demonstration(self._template, self._format, self._oracle.start(episode))


class _Demonstration:
    def __init__(self, template: ChatTemplate, format: Format, oracle: scripted.ScriptedSession) -> None:  # noqa: A002
        self._template = template
        self._format = format
        self._conversation = Conversation(template)
        self._oracle = oracle

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        action = (await self._oracle.reply(messages, sampling, seed=seed)).text
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
        await self._oracle.close()
