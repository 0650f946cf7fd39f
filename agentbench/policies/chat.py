"""Messages to token ids: the only place that decides whether a reply continues its context or starts a new one.

A conversation is rendered as text by the tokenizer's chat template. Where the new text begins with the text of the
previous prompt and the reply to it, only the rest is tokenised and appended: the closing of the reply's message, the
new observation, the opening of the next reply. Where it does not (a window, a summary, a template that strips earlier
thinking), the whole prompt is tokenised anew and marked `fresh_context`. Sampled tokens are kept as they were sampled,
the stop token among them; nothing that a model said is ever tokenised again within its context.

What an environment or a model wrote may look like a control token (`<|im_end|>`, `<s>`). Such text is marked before it
is rendered and tokenised as plain characters, so that nobody can open or close a message but the template.
"""

import hashlib
import itertools
import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentbench.core.errors import UsageError
from agentbench.core.types import Message

DEFAULT_TEMPLATE = (
    "{{ bos_token or '' }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "Assistant:{% generation %}{{ message['content'] + (eos_token or '') }}{% endgeneration %}"
    "{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'] }}"
    "{% else %}{{ message['content'] }}{% endif %}"
    "{{ '\n\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""For tokenizers without a chat template: `User:` and `Assistant:` paragraphs; the end-of-text token ends a reply."""

TODAY = "26 Jul 2024"
"""The date that Llama 3 templates fall back to; passed to every template, for a prompt must not depend on the day."""

MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Characters that Unicode reserves for use inside one program."""


class ChatTemplate:
    """A tokenizer and its chat template.

    Args:
        tokenizer: A transformers tokenizer.
        thinking: Passed to the template as `enable_thinking`; None leaves the choice to the template.
    """

    def __init__(self, tokenizer: Any, *, thinking: bool | None = None) -> None:
        self.tokenizer = tokenizer
        # The engine decodes while sessions encode, and tokenizers refuse to be changed while they are read.
        self._lock = threading.Lock()
        self.source: str = tokenizer.get_chat_template() if tokenizer.chat_template else DEFAULT_TEMPLATE
        self._options: dict[str, Any] = {"date_string": TODAY}
        if thinking is not None:
            self._options["enable_thinking"] = thinking
        self._specials = {
            token.content: (index, token)
            for index, token in tokenizer.added_tokens_decoder.items()
            if token.special and len(token.content) > 1
        }
        self._control_ids = {index for index, _ in self._specials.values()}
        self._lookalike = _alternatives(re.escape(text) for text in self._specials)
        self._control = _alternatives(
            (r"\s*" if token.lstrip else "") + re.escape(text) + (r"\s*" if token.rstrip else "")
            for text, (_, token) in self._specials.items()
        )
        self._folds_system = self._refuses_system()

    def render(self, messages: Sequence[Message]) -> "Rendered":
        """Render a conversation up to the opening of the next reply.

        Raises:
            UsageError: The template refuses the conversation, or there are images in it.
        """
        if any(message.images for message in messages):
            raise UsageError("this model reads text only, and the conversation has images")
        contents = [_encodable(message.content) for message in messages]
        mark = _unused(contents)
        chat = [
            {"role": message.role, "content": self._marked(content, mark)}
            for message, content in zip(messages, contents, strict=True)
        ]
        return Rendered(self._apply(_folded(chat) if self._folds_system else chat), mark)

    def encode(self, rendered: "Rendered") -> list[int]:
        """Tokenise rendered text; marked look-alikes of control tokens become plain characters."""
        if rendered.mark not in rendered.text:
            return self._ids(rendered.text, plain=False)
        ids = []
        for part in self._control.split(rendered.text):
            if part.strip() in self._specials:
                ids.append(self._specials[part.strip()][0])
            elif part:
                ids += self._ids(part.replace(rendered.mark, ""), plain=True)
        return ids

    def reply_ids(self, text: str) -> list[int]:
        """Tokenise a reply as a model would have written it: plain characters, and the token that ends it."""
        end = self.closing_ids() or [self.tokenizer.eos_token_id]
        return self._ids(_encodable(text), plain=True) + [index for index in end if index is not None]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply, without control tokens."""
        with self._lock:
            text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def is_control(self, ids: Sequence[int]) -> bool:
        """Tell whether all of these (and there are some) are control tokens."""
        return bool(ids) and self._control_ids.issuperset(ids)

    def closing_ids(self) -> list[int]:
        """Return the control token that the template puts behind a reply, as a list of none or one."""
        said = "said"
        try:
            text = self._apply(
                [{"role": "user", "content": "ask"}, {"role": "assistant", "content": said}], opening=False
            )
        except UsageError:
            return []
        behind = self._control.match(text, text.rfind(said) + len(said))
        return [self._specials[behind.group().strip()][0]] if behind else []

    def hashes(self) -> dict[str, str]:
        """Return sha256 of the tokenizer and of the chat template, for the lock."""
        return {"tokenizer": _tokenizer_hash(self.tokenizer), "chat_template": _sha256(self.source)}

    def _apply(self, chat: list[dict[str, str]], *, opening: bool = True) -> str:
        import jinja2

        try:
            text: str = self.tokenizer.apply_chat_template(
                chat, chat_template=self.source, tokenize=False, add_generation_prompt=opening, **self._options
            )
        except jinja2.TemplateError as error:
            roles = ", ".join(message["role"] for message in chat)
            raise UsageError(f"the model's chat template refuses a conversation of {roles}: {error}") from error
        return text

    def _marked(self, content: str, mark: str) -> str:
        """Break every look-alike of a control token behind its first character."""
        return self._lookalike.sub(lambda found: found.group()[0] + mark + found.group()[1:], content)

    def _ids(self, text: str, *, plain: bool) -> list[int]:
        with self._lock:
            encoded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=plain)
        ids: list[int] = encoded["input_ids"]
        return ids

    def _refuses_system(self) -> bool:
        """Tell whether the template raises on a system message, or leaves it out."""
        rule = "Rule 17"
        try:
            return rule not in self._apply([{"role": "system", "content": rule}, {"role": "user", "content": "ask"}])
        except UsageError:
            return True


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text."""

    text: str
    mark: str
    """What breaks the look-alikes of control tokens in `text`."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a reply is sampled from."""

    rendered: Rendered
    added_ids: list[int]
    """The tokens that this turn adds."""
    context_ids: list[int]
    """The whole context, `added_ids` last."""
    fresh: bool
    """True: the context is `added_ids` and nothing else, although there was one before, or this is the first."""


class Conversation:
    """The token ids of one session, turn after turn.

    Example:
        >>> prompt = conversation.prompt(messages)          # doctest: +SKIP
        >>> text = conversation.accept(prompt, sampled_ids) # doctest: +SKIP
    """

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._prompt: Prompt | None = None
        self._reply_ids: list[int] = []
        self._reply = ""

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """Turn the conversation so far into what has to be added to the context. Changes nothing."""
        rendered = self._template.render(messages)
        rest = self._continuation(messages, rendered)
        if rest is None or self._prompt is None:
            ids = self._template.encode(rendered)
            return Prompt(rendered, ids, ids, fresh=True)
        added = self._template.encode(rest)
        if self._reply_ids[-1:] == added[:1] and self._template.is_control(added[:1]):
            added = added[1:]  # the reply's own stop token closes its message
        return Prompt(rendered, added, [*self._prompt.context_ids, *self._reply_ids, *added], fresh=False)

    def accept(self, prompt: Prompt, reply_ids: Sequence[int]) -> str:
        """Make a sampled reply part of the context, and return its text."""
        self._prompt = prompt
        self._reply_ids = list(reply_ids)
        self._reply = self._template.decode(reply_ids)
        return self._reply

    def _continuation(self, messages: Sequence[Message], rendered: Rendered) -> Rendered | None:
        """Return what follows the last reply in the rendered text, or None where that text does not contain it."""
        said = next((message.content for message in reversed(messages) if message.role == "assistant"), None)
        if self._prompt is None or said != self._reply:
            return None
        reply = self._template._marked(self._reply, rendered.mark)
        for version in (reply, reply.strip()):  # some templates trim what was said
            head = self._prompt.rendered.text + version
            if rendered.text.startswith(head):
                return Rendered(rendered.text[len(head) :], rendered.mark)
        return None


def _alternatives(patterns: Iterator[str]) -> re.Pattern[str]:
    """Match any of the patterns, the longest first, in a group of its own; nothing at all where there are none."""
    joined = "|".join(sorted(patterns, key=len, reverse=True))
    return re.compile(f"({joined})" if joined else r"((?!))")


def _encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and no tokenizer can read."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _unused(contents: Sequence[str]) -> str:
    """Return the first mark that occurs in none of the texts."""
    texts = "".join(contents)
    for size in itertools.count(1):
        for mark in itertools.product(MARKS, repeat=size):
            if "".join(mark) not in texts:
                return "".join(mark)
    raise AssertionError("unreachable: some string is not in a finite text")


def _folded(chat: list[dict[str, str]]) -> list[dict[str, str]]:
    """Put system text in front of the first user message, for templates that know no system role."""
    system = "\n\n".join(message["content"] for message in chat if message["role"] == "system")
    others = [message for message in chat if message["role"] != "system"]
    if not system:
        return others
    if not others or others[0]["role"] != "user":
        return [{"role": "user", "content": system}, *others]
    return [{"role": "user", "content": f"{system}\n\n{others[0]['content']}"}, *others[1:]]


def _tokenizer_hash(tokenizer: Any) -> str:
    """Hash what decides the ids: the backend's own description, or the vocabulary where there is no such backend."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        description = json.loads(backend.to_str())
        passing = {"padding", "truncation"}  # left over from whoever called it last
        return _sha256(json.dumps({key: value for key, value in description.items() if key not in passing}))
    return _sha256(json.dumps(sorted(tokenizer.get_vocab().items()), ensure_ascii=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
