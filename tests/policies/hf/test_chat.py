"""Messages become token ids: appended where the conversation continues, anew where it does not, never re-tokenised."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.core.errors import UsageError
from agentbench.core.types import Message, Sampling
from agentbench.policies.chat import DEFAULT_TEMPLATE, MARKS, ChatTemplate, Conversation
from agentbench.policies.checkpoint import Checkpoint
from agentbench.policies.init import CHATML, byte_tokenizer
from tests.policies.hf.conftest import Load, Make

CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
PIECES = st.one_of(st.text(max_size=20), st.sampled_from([*CONTROL, "<|im_", "end|>"]))
TEXTS = st.lists(PIECES).map("".join)
MARKED_TEXTS = st.lists(PIECES | st.sampled_from(MARKS[:2])).map("".join)
STRIPPING = CHATML.replace(
    "message['content'] + '<|im_end|>' }}{% endgen",
    "message['content'].split('</think>')[-1] + '<|im_end|>' }}{% endgen",
)
TRIMMING = CHATML.replace("message['content']", "message['content'] | trim")
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)
SILENT_SYSTEM = CHATML.replace(
    "{% for message in messages %}", "{% for message in messages if message['role'] != 'system' %}"
)


def templated(source: str | None) -> ChatTemplate:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = source
    return ChatTemplate(tokenizer)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """Tokenise a reply as a model would have written it: plain text."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return ids


def told(*texts: str) -> list[Message]:
    """User and assistant take turns."""
    return [Message("assistant" if index % 2 else "user", text) for index, text in enumerate(texts)]


def control_count(tokenizer: Any, ids: list[int]) -> list[int]:
    return [ids.count(tokenizer.convert_tokens_to_ids(token)) for token in CONTROL]


@given(st.lists(MARKED_TEXTS, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_text_survives_the_round_trip_and_none_becomes_a_control_token(texts: list[str]) -> None:
    template = templated(CHATML)
    ids = template.encode(template.render(told(*texts)))
    turns = zip(("user", "assistant") * len(texts), texts, strict=False)
    want = "".join(f"{role}\n{text}\n" for role, text in turns) + "assistant\n"
    assert template.decode(ids) == want.encode("utf-8", "replace").decode()
    assert control_count(template.tokenizer, ids) == [len(texts) + 1, len(texts), 0]


@given(st.lists(TEXTS, min_size=3, max_size=7), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_growing_conversation_is_appended_to_and_equals_its_rendering(texts: list[str], stopped: bool) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    conversation = Conversation(templated(CHATML))
    template = conversation._template
    context: list[int] = []
    for turn in range(0, len(texts) - 1, 2):
        prompt = conversation.prompt(told(*texts[: turn + 1]))
        assert prompt.fresh == (turn == 0)
        assert prompt.context_ids == context + prompt.added_ids
        assert prompt.context_ids == template.encode(template.render(told(*texts[: turn + 1])))
        reply = ids_of(template.tokenizer, texts[turn + 1]) + [template.tokenizer.eos_token_id] * stopped
        assert conversation.accept(prompt, reply) == texts[turn + 1]
        context = prompt.context_ids + reply


def test_a_written_reply_is_tokenised_as_if_it_had_been_sampled() -> None:
    conversation = Conversation(templated(CHATML))
    template = conversation._template
    prompt = conversation.prompt(told("Go"))
    ids = template.reply_ids("up <|im_end|>")
    assert ids == [*ids_of(template.tokenizer, "up <|im_end|>"), 256]
    text = conversation.accept(prompt, ids)
    want = template.encode(template.render(told("Go", text, "wall")))
    assert conversation.prompt(told("Go", text, "wall")).context_ids == want


def test_images_are_refused() -> None:
    with pytest.raises(UsageError, match="images"):
        templated(CHATML).render([Message("user", "Look", images=(b"png",))])


def test_sampled_ids_are_kept_although_they_would_be_tokenised_otherwise() -> None:
    conversation = Conversation(templated(CHATML))
    torn = [148, 30, 258, 148]  # halves of characters, and a control token in the middle
    first = conversation.prompt(told("Go"))
    text = conversation.accept(first, torn)
    second = conversation.prompt(told("Go", text, "on"))
    assert not second.fresh
    assert second.context_ids == [*first.context_ids, *torn, *second.added_ids]


@pytest.mark.parametrize(("end", "closing"), [([256], "\n"), ([], "<|im_end|>\n")])
def test_what_closes_the_message_belongs_to_the_next_prompt_unless_it_was_sampled(end: list[int], closing: str) -> None:
    conversation = Conversation(templated(CHATML))
    template = conversation._template
    text = conversation.accept(conversation.prompt(told("Go")), [*ids_of(template.tokenizer, "up"), *end])
    added = conversation.prompt(told("Go", text, "wall")).added_ids
    want = f"{closing}<|im_start|>user\nwall<|im_end|>\n<|im_start|>assistant\n"
    assert template.tokenizer.decode(added) == want


def test_a_template_that_strips_earlier_thinking_starts_a_fresh_context() -> None:
    conversation = Conversation(templated(STRIPPING))
    template = conversation._template
    for reply, fresh in (("<think>hm</think>up", True), ("up", False)):
        text = conversation.accept(conversation.prompt(told("Go")), [*ids_of(template.tokenizer, reply), 256])
        prompt = conversation.prompt(told("Go", text, "wall"))
        assert prompt.fresh == fresh
        assert ("hm" in template.decode(prompt.context_ids)) is False


def test_a_window_or_an_edited_reply_starts_a_fresh_context() -> None:
    conversation = Conversation(templated(CHATML))
    text = conversation.accept(conversation.prompt(told("Go")), [*ids_of(conversation._template.tokenizer, "up"), 256])
    assert conversation.prompt([Message("user", "wall")]).fresh
    assert conversation.prompt(told("Go", text + "!", "wall")).fresh
    assert conversation.prompt(told("Went", text, "wall")).fresh
    assert not conversation.prompt(told("Go", text, "wall")).fresh


def test_a_template_that_trims_replies_still_continues_them() -> None:
    conversation = Conversation(templated(TRIMMING))
    template = conversation._template
    first = conversation.prompt(told("Go"))
    text = conversation.accept(first, [*ids_of(template.tokenizer, " up \n"), 256])
    second = conversation.prompt(told("Go", text, "wall"))
    assert text == " up \n" and not second.fresh
    assert template.decode(second.context_ids) == "user\nGo\nassistant\n up \n\nuser\nwall\nassistant\n"


@pytest.mark.parametrize("source", [NO_SYSTEM, SILENT_SYSTEM])
def test_a_template_without_system_role_gets_its_text_in_the_first_user_message(source: str) -> None:
    rendered = templated(source).render([Message("system", "Rules."), Message("user", "Go")])
    assert rendered.text == "<|im_start|>user\nRules.\n\nGo<|im_end|>\n<|im_start|>assistant\n"


def test_a_conversation_that_the_template_refuses_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="one role only"):
        templated("{{ raise_exception('one role only') }}").render(told("Go", "up"))


def test_a_tokenizer_without_template_gets_the_documented_one() -> None:
    template = templated(None)
    assert template.source == DEFAULT_TEMPLATE
    chat = [Message("system", "Play."), *told("Go", " up", "wall")]
    assert template.render(chat).text == "Play.\n\nUser: Go\n\nAssistant: up<|im_end|>\n\nUser: wall\n\nAssistant:"
    assert template.closing_ids() == [256]


def test_the_date_in_a_prompt_does_not_depend_on_the_day() -> None:
    source = "{{ date_string if date_string is defined else strftime_now('%d %b %Y') }}" + CHATML
    assert templated(source).render(told("Go")).text.startswith("26 Jul 2024")


def test_thinking_is_passed_to_the_template() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = (
        CHATML + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    )
    texts = [ChatTemplate(tokenizer, thinking=choice).render(told("Go")).text for choice in (None, True, False)]
    assert [text.endswith("<think></think>") for text in texts] == [False, False, True]


def test_the_hashes_follow_the_template_and_the_tokenizer() -> None:
    chatml, stripping = templated(CHATML).hashes(), templated(STRIPPING).hashes()
    assert chatml == templated(CHATML).hashes()
    assert chatml["tokenizer"] == stripping["tokenizer"]
    assert chatml["chat_template"] != stripping["chat_template"]


def test_a_fresh_context_is_recorded_and_shares_the_cache_of_its_common_beginning(make: Make, load: Load) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = STRIPPING
    policy = make(Checkpoint(load("qwen3").model, tokenizer))

    async def turns() -> None:
        session = policy.start()
        sampling = Sampling(temperature=1.0, max_tokens=5)
        chat = [Message("system", "Play."), Message("user", "Go")]
        first = await session.reply(chat, sampling, seed=0)
        session._conversation._reply = thought = f"<think>{first.text}</think>up"
        chat += [Message("assistant", thought), Message("user", "wall")]
        second = await session.reply(chat, sampling, seed=1)
        assert second.fresh_context and len(second.prompt_ids) == second.usage["prompt_tokens"]
        assert second.usage["prefilled_tokens"] == len(second.prompt_ids) - len(first.prompt_ids)
        other = await policy.start().reply(chat, replace(sampling), seed=1)
        assert other.token_ids == second.token_ids

    asyncio.run(turns())
