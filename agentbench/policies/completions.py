"""The chat-completions protocol, as vLLM, SGLang, llama.cpp and hosted services speak it: bodies out, answers in.

Every server takes a dialect of it. A request therefore says everything that decides the draw, also where it only
repeats a default (vLLM and llama.cpp have defaults of their own for top-k, min-p and penalties), and whatever a server
then refuses to hear is left out from there on, provided that leaving it out changes nothing that the user asked for.

What comes back is kept only where it means what `Reply` says it means:

- log-probabilities at temperatures 0 and 1 alone: at others some servers report them before the temperature, some
  after it;
- token ids only together with those of the prompt: half a sequence is none;
- no entropies: the log-probabilities of the k likeliest tokens do not determine one.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pydantic

from agentbench.core.errors import Failure, UsageError
from agentbench.core.plain import encodable, plain
from agentbench.core.types import Message, Reply, Sampling

_ALWAYS_OPTIONAL = frozenset(
    (
        "seed",
        "logprobs",
        "min_p",
        "repetition_penalty",
        "return_token_ids",
        "include_stop_str_in_output",
        "no_stop_trim",
    )
)
_CONTEXT = re.compile(r"context[ _](?:length|size|window)|(?:prompt|input) is too long", re.IGNORECASE)
_CONTEXT_LIMIT = re.compile(r"context length (?:is|of) (\d+)")
_PROMPT_LENGTH = re.compile(r"(\d+) (?:in the messages|input tokens|tokens from the input messages)")
_BROKEN_OFF = ("abort", "error")


class AnswerError(Exception):
    """The server gave no completion this time; asking again may help."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait
        """Seconds that the server asked to be left alone for; None if it did not say."""


class Answer(NamedTuple):
    """What a server said in one completion."""

    reply: Reply
    """The reply; `prompt_ids` are those of the whole prompt."""
    system_fingerprint: str | None
    """What the server calls the software and weights behind the reply."""


class Refusal(NamedTuple):
    """Why a server turned a request down."""

    message: str
    param: str | None = None
    """The parameter that the server blames."""
    code: str | None = None

    @property
    def is_about_context(self) -> bool:
        """True if the conversation, or what it would grow to, does not fit the model's context."""
        return bool(_CONTEXT.search(f"{self.code} {self.message}"))

    def room(self) -> int:
        """Return the number of tokens that a reply could have had, if the message tells; else 0."""
        limit, prompt = _CONTEXT_LIMIT.search(self.message), _PROMPT_LENGTH.search(self.message)
        return max(0, int(limit[1]) - int(prompt[1])) if limit and prompt else 0


@dataclass
class Dialect:
    """What one server was found not to understand. Grows with its refusals; shared by all sessions of a run."""

    refused: set[str] = field(default_factory=set)
    """Parameters that are left out where that changes nothing."""
    renames_max_tokens: bool = False
    """The server wants `max_completion_tokens`."""

    def body(self, model: str, messages: Sequence[Message], sampling: Sampling, seed: int) -> dict[str, Any]:
        """Return the body of a request in this dialect."""
        body = _full_body(model, messages, sampling, seed)
        for name in self.refused & _optional(sampling):
            body.pop(name, None)
        if self.renames_max_tokens:
            body["max_completion_tokens"] = body.pop("max_tokens")
        return body

    def learn(self, refusal: Refusal, sent: Mapping[str, Any], sampling: Sampling) -> bool:
        """Take note of what a server refused; return True if another request may fare better.

        Raises:
            UsageError: The server refuses something that the user asked for.
        """
        blamed = _blamed(refusal, sent)
        if "max_tokens" in blamed:
            self.renames_max_tokens = True
            return True
        if optional := blamed & _optional(sampling):
            self.refused |= optional
            return True
        if blamed:
            asked = ", ".join(f"{name}={sent[name]!r}" for name in sorted(blamed))
            raise UsageError(f"the server refuses {asked}: {refusal.message}; choose what it can do")
        return False


def _full_body(model: str, messages: Sequence[Message], sampling: Sampling, seed: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": seed % 2**31,  # llama.cpp keeps 32 bits, and JavaScript gateways round beyond 53
        "top_k": sampling.top_k or -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "return_token_ids": True,
    }
    if sampling.temperature in (0, 1):
        body["logprobs"] = True
    if sampling.stop:
        # A stop text is part of the reply: vLLM calls that include_stop_str_in_output, SGLang no_stop_trim.
        body |= {"stop": list(sampling.stop), "include_stop_str_in_output": True, "no_stop_trim": True}
    return body


def _message(message: Message) -> dict[str, Any]:
    text = encodable(message.content)
    if not message.images:
        return {"role": message.role, "content": text}
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for image in message.images:
        url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": message.role, "content": parts}


def _optional(sampling: Sampling) -> frozenset[str]:
    """Name the parameters whose absence changes nothing that was asked for."""
    neutral = {"temperature": sampling.temperature == 1, "top_p": sampling.top_p == 1, "top_k": sampling.top_k == 0}
    return _ALWAYS_OPTIONAL | {name for name, is_neutral in neutral.items() if is_neutral}


def _blamed(refusal: Refusal, sent: Mapping[str, Any]) -> set[str]:
    names = sent.keys() - {"model", "messages"}
    if refusal.param in names:
        return {refusal.param}
    return {name for name in names if re.search(rf"\b{name}\b", refusal.message)}


def read_refusal(text: str) -> Refusal:
    """Read the body of an answer that is no success, in whichever of the usual shapes it comes."""
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        payload = text
    error = payload.get("error", payload.get("detail", payload)) if isinstance(payload, dict) else payload
    if isinstance(error, dict):
        message, param, code = (error.get(key) for key in ("message", "param", "code"))
        message = message or json.dumps(error)
    else:
        message, param, code = error if isinstance(error, str) else json.dumps(error), None, None
    line = " ".join(plain(str(message)).split())[:400]
    return Refusal(line, param if isinstance(param, str) else None, str(code or ""))


class _Logprob(pydantic.BaseModel):
    logprob: float


class _Logprobs(pydantic.BaseModel):
    content: list[_Logprob] | None = None


class _ChoiceMessage(pydantic.BaseModel):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(pydantic.BaseModel):
    message: _ChoiceMessage
    finish_reason: str
    stop_reason: str | int | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _Completion(pydantic.BaseModel):
    choices: list[_Choice] = pydantic.Field(min_length=1)
    usage: dict[str, Any] | None = None
    prompt_token_ids: list[int] | None = None
    system_fingerprint: str | None = None


def read_answer(text: str, sampling: Sampling) -> Answer:
    """Read a completion.

    Raises:
        AnswerError: It is broken, incomplete, or was broken off by the server.
        Failure: The provider filtered the reply away.
    """
    completion = _completion(text)
    choice = completion.choices[0]
    message, finish = choice.message, choice.finish_reason
    # A reply that was cut while the model still thought in secret may come without any content.
    if not message.model_fields_set & {"content", "reasoning_content", "reasoning", "refusal"} and finish != "length":
        raise AnswerError("a broken answer: its message has no content")
    if finish in _BROKEN_OFF:
        raise AnswerError(f"the server broke the reply off: finish_reason {finish!r}")
    if finish == "content_filter":
        raise Failure("provider", "the provider's content filter withheld the reply")
    return Answer(_reply(completion, choice, sampling), completion.system_fingerprint)


def _completion(text: str) -> _Completion:
    try:
        # Models do write lone surrogates, and pydantic refuses them.
        sound = encodable(json.dumps(json.loads(text), ensure_ascii=False))
        return _Completion.model_validate_json(sound)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        fault = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, RecursionError):
        fault = "no JSON"
    raise AnswerError(f"a broken answer: {fault}; it reads {read_refusal(text).message[:200]!r}")


def _reply(completion: _Completion, choice: _Choice, sampling: Sampling) -> Reply:
    has_ids = bool(completion.prompt_token_ids and choice.token_ids)
    token_ids = tuple(choice.token_ids or ()) if has_ids else ()
    logprobs = tuple(entry.logprob for entry in (choice.logprobs and choice.logprobs.content) or ())
    if sampling.temperature not in (0, 1) or (token_ids and len(logprobs) != len(token_ids)):
        logprobs = ()
    return Reply(
        text=_text(choice, sampling.stop),
        prompt_ids=tuple(completion.prompt_token_ids or ()) if has_ids else (),
        token_ids=token_ids,
        logprobs=logprobs,
        finish="length" if choice.finish_reason == "length" else "stop",
        usage=_usage(completion.usage or {}),
    )


def _text(choice: _Choice, stop: Sequence[str]) -> str:
    message = choice.message
    text = message.content or message.refusal or ""
    # Servers that cut the stop text off may still say which one it was.
    if isinstance(choice.stop_reason, str) and choice.stop_reason in stop and not text.endswith(choice.stop_reason):
        text += choice.stop_reason
    thinking = message.reasoning_content or message.reasoning
    if not thinking:
        return text
    is_cut = choice.finish_reason == "length" and not text
    return f"<think>{thinking}" if is_cut else f"<think>{thinking}</think>{text}"


def _usage(usage: Mapping[str, Any]) -> dict[str, float]:
    """Flatten the numbers: `prompt_tokens`, `completion_tokens`, and from the details `cached_tokens` and its like."""
    flat: dict[str, float] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            flat |= _usage(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[name] = value
    return flat
