"""A transformers checkpoint as a policy: `HFPolicy(path)`, for evaluation and for training alike.

    messages --chat.py--> token ids --engine.py--> sampled ids --chat.py--> text
                                        |
                     forward.py (model, arena) and sampling.py

A session keeps the token ids of its episode; the engine keeps their keys and values, and prefills only what a turn
adds. Replies are recorded as they were sampled: ids, log-probabilities, entropies, and the version of the weights.
"""

import asyncio
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentbench.core.errors import ContextFull
from agentbench.core.policy import EpisodeContext
from agentbench.core.types import Finish, Message, Reply, Sampling
from agentbench.policies.chat import ChatTemplate, Conversation
from agentbench.policies.checkpoint import Checkpoint, Dtype, fingerprint, free_memory, load_checkpoint
from agentbench.policies.engine import Counters, Engine
from agentbench.policies.forward import ValueHead
from agentbench.policies.probe import choose_backend
from agentbench.policies.request import Request


class HFPolicy:
    """Plays with a causal language model that transformers loads.

    Args:
        source: A checkpoint folder, or a checkpoint that is loaded already (its model is shared, not copied).
        device: As torch names it; `auto` takes cuda, mps or cpu, the first that is there.
        dtype: Type of the weights; `auto` is float32 on a CPU and the checkpoint's own elsewhere.
        batch_size: Replies that are written at the same time; further ones wait.
        context_limit: Tokens of a context; the model's own limit where None.
        memory_limit: Bytes for keys and values; where None, half of what is free on a CPU and 70 % on a GPU.
        trust_remote_code: Run model code that lies in the folder.
        thinking: Passed to the chat template as `enable_thinking`; None leaves the choice to the template.

    Raises:
        PrerequisiteError: The folder, one of its files or the device is missing, or a file is broken.
    """

    def __init__(
        self,
        source: str | Path | Checkpoint,
        *,
        device: str = "auto",
        dtype: Dtype = "auto",
        batch_size: int = 32,
        context_limit: int | None = None,
        memory_limit: int | None = None,
        trust_remote_code: bool = False,
        thinking: bool | None = None,
    ) -> None:
        if not isinstance(source, Checkpoint):
            source = load_checkpoint(source, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
        self.checkpoint = source
        self.name = source.path.resolve().name if source.path else source.model.config.model_type
        self.version = 0
        self.template = ChatTemplate(source.tokenizer, thinking=thinking)
        self.context_limit = _context_limit(source, context_limit)
        self.stop_ids = _stop_ids(source, self.template)
        memory_limit = memory_limit or free_memory(source.model.device)
        backend = choose_backend(source.model, context_limit=self.context_limit, memory_limit=memory_limit)
        self._engine = Engine(backend, batch_size)
        self._close = weakref.finalize(self, _shut, self._engine, self._engine.start())

    @property
    def counters(self) -> Counters:
        """What the engine has done so far."""
        return self._engine.counters

    @property
    def arena_bytes(self) -> int:
        """Memory that live conversations hold."""
        return self._engine.backend.arena_bytes

    def start(self, episode: EpisodeContext | None = None) -> "HFSession":
        """Open a session for one episode."""
        return HFSession(self.template, self._engine, self.context_limit, self.stop_ids)

    def update(self, change: Callable[[], None] | None = None) -> int:
        """Let the weights change between replies, and return the new version.

        Replies in progress are finished with the old weights; live conversations are prefilled anew before their next.

        Args:
            change: Writes the new weights into `checkpoint.model`; None if they are there already.
        """
        self.version = self._engine.between_replies(change or _nothing).result()
        return self.version

    def free_caches(self) -> None:
        """Free the memory of live conversations, which are prefilled anew before their next reply."""
        self._engine.free_caches().result()

    @contextmanager
    def together(self, company: int) -> Iterator[None]:
        """Make what is played inside repeatable to the last bit: see `Engine.gather`.

        Args:
            company: Episodes that are started at once, all of them before the first token; 0 for as they come.
        """
        self._engine.gather(company)
        try:
            yield
        finally:
            self._engine.gather(0)

    def set_value_head(self, head: ValueHead | None) -> None:
        """Record a critic's estimate with every sampled token.

        Args:
            head: Maps the hidden states that a token is sampled from, [rows, width], to values [rows]; None for none.
        """
        engine = self._engine
        engine.between_replies(lambda: setattr(engine.backend, "value_head", head), new_weights=False).result()

    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies this policy in a lock: hashes of its files, and how it runs."""
        model = self.checkpoint.model
        return {
            **fingerprint(self.checkpoint),
            **self.template.hashes(),
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": model.device.type,
            "attention": model.config._attn_implementation,
            "batch_size": self._engine.batch_size,
            "context_limit": self.context_limit,
        }

    def close(self) -> None:
        """Stop the engine and free its memory. Idempotent."""
        self._close()


class HFSession:
    """One episode's conversation with the model."""

    def __init__(self, template: ChatTemplate, engine: Engine, context_limit: int, stop_ids: frozenset[int]) -> None:
        self._template = template
        self._conversation = Conversation(template)
        self._engine = engine
        self._context_limit = context_limit
        self._stop_ids = stop_ids
        self._lane = engine.open()

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        """Answer the conversation so far.

        Raises:
            ContextFull: The prompt leaves no room for a single token.
        """
        prompt = self._conversation.prompt(messages)
        size = len(prompt.context_ids)
        room = min(sampling.max_tokens, self._context_limit - size)
        if room < 1:
            raise ContextFull(f"the prompt has {size} tokens, and the context ends at {self._context_limit}")
        request = Request(self._lane, prompt.context_ids, sampling, room, seed, self._ender(sampling.stop))
        self._engine.submit(request)
        draft = await asyncio.wrap_future(request.future)
        return Reply(
            text=self._conversation.accept(prompt, draft.token_ids),
            prompt_ids=tuple(prompt.added_ids),
            token_ids=tuple(draft.token_ids),
            logprobs=tuple(draft.logprobs),
            entropies=tuple(draft.entropies),
            values=tuple(draft.values) or None,
            fresh_context=prompt.fresh,
            finish=draft.finish,
            policy_version=draft.version,
            usage={
                "prompt_tokens": size,
                "completion_tokens": len(draft.token_ids),
                "prefilled_tokens": draft.prefilled,
            },
        )

    async def close(self) -> None:
        """Free the slot. Idempotent."""
        self._engine.release(self._lane)

    def _ender(self, stop: tuple[str, ...]) -> Callable[[list[int]], Finish | None]:
        """Return what tells whether a reply ended: a stop token, or a stop text in its last tokens."""
        stop_ids, decode = self._stop_ids, self._template.decode
        stop = tuple(text for text in stop if text)
        if not stop:
            return lambda ids: "stop" if ids[-1] in stop_ids else None
        # Every token is at least a byte long, so that a text that has just been completed lies within so many tokens.
        tail = max(len(text.encode()) for text in stop) + 1

        def ended(ids: list[int]) -> Finish | None:
            if ids[-1] in stop_ids:
                return "stop"
            said = decode(ids[-tail:])
            return "stop" if any(text in said for text in stop) else None

        return ended


def _shut(engine: Engine, thread: Any) -> None:
    engine.stop()
    thread.join()


def _nothing() -> None:
    """Change no weight."""


def _context_limit(checkpoint: Checkpoint, wanted: int | None) -> int:
    config = checkpoint.model.config.get_text_config(decoder=True)
    own = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    limits = [limit for limit in (wanted, own) if limit]
    return min(limits) if limits else 1 << 20


def _stop_ids(checkpoint: Checkpoint, template: ChatTemplate) -> frozenset[int]:
    """Collect the ids that end a reply: those of the generation config, the tokenizer and the template."""
    generation = checkpoint.model.generation_config
    named = generation.eos_token_id if generation is not None else None
    ids = [*(named if isinstance(named, list) else [named]), checkpoint.tokenizer.eos_token_id, *template.closing_ids()]
    return frozenset(index for index in ids if index is not None)
