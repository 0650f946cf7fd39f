"""What is said to a server, and what is kept of its answers."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from agentbench.core.errors import ContextFull, UsageError
from agentbench.core.types import Message, Reply, Sampling
from agentbench.policies.completions import Refusal
from tests.policies import server
from tests.policies.client import EPISODE, ask, connect, run, user
from tests.policies.server import EDGE, Provider


def test_a_reply_has_text_tokens_logprobs_and_costs_but_no_entropies(provider: Provider) -> None:
    reply = ask(connect(provider), Message("system", "be brief"), user("hi"))
    ids = (*b"you said hi", EDGE)
    assert reply.text == "you said hi"
    assert reply.token_ids == ids
    assert reply.prompt_ids == (EDGE, *b"be brief", EDGE, EDGE, *b"hi", EDGE, EDGE)
    assert reply.logprobs == tuple(-i / 256 for i in ids)
    assert reply.entropies == ()
    assert reply.fresh_context
    assert reply.finish == "stop"
    assert reply.usage == {"prompt_tokens": 15, "completion_tokens": 12, "cached_tokens": 3}


def test_the_whole_sampling_is_sent_and_the_servers_defaults_are_switched_off(provider: Provider) -> None:
    ask(connect(provider), user("hi"), sampling=Sampling(0.7, 0.9, 5, 32, ("END", "STOP")), seed=2**40 + 7)
    ask(connect(provider), user("hi"), sampling=Sampling())
    chosen, default = provider.requests
    expected = {"model": "tiny", "temperature": 0.7, "top_p": 0.9, "top_k": 5, "max_tokens": 32, "seed": 7}
    assert chosen.items() >= expected.items()
    assert chosen["stop"] == ["END", "STOP"] and chosen["include_stop_str_in_output"] is chosen["no_stop_trim"] is True
    assert default.items() >= {"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1}.items()
    assert "stop" not in default


def test_logprobs_are_kept_only_where_every_server_means_the_same(provider: Provider) -> None:
    policy = connect(provider)
    assert ask(policy, user("a"), sampling=Sampling(temperature=1.0)).logprobs
    assert not ask(policy, user("a"), sampling=Sampling(temperature=0.7)).logprobs


def test_logprobs_that_do_not_belong_to_the_tokens_are_dropped(provider: Provider) -> None:
    provider.answer = lambda body: {"logprobs": {"content": [{"logprob": -1.0}]}}
    reply = ask(connect(provider), user("a"))
    assert reply.token_ids and not reply.logprobs


def test_later_turns_add_only_their_own_tokens(provider: Provider) -> None:
    policy = connect(provider)
    first, second = [user("one")], [user("one"), Message("assistant", "you said one"), user("two")]

    async def work() -> list[Reply]:
        session = policy.start(EPISODE)
        replies = [await session.reply(messages, Sampling(), seed=1) for messages in (first, second, [user("new")])]
        await session.close()
        await session.close()
        return replies

    one, two, new = run(policy, work)
    whole = [*one.prompt_ids, *one.token_ids, *two.prompt_ids]
    assert whole == server.prompt_ids(provider.requests[1])
    assert two.prompt_ids == (EDGE, *b"two", EDGE, EDGE)
    assert [reply.fresh_context for reply in (one, two, new)] == [True, False, True]


def test_without_the_prompts_ids_nothing_is_claimed_about_tokens(provider: Provider) -> None:
    provider.rejects = {"return_token_ids": server.names_param}
    provider.answer = lambda body: {"token_ids": [1, 2, 3]}
    reply = ask(connect(provider), user("a"))
    assert (reply.prompt_ids, reply.token_ids, reply.fresh_context) == ((), (), False)
    assert reply.logprobs


def test_images_travel_as_data_urls(provider: Provider) -> None:
    ask(connect(provider), user("look", b"\x89PNG"))
    text, image = provider.requests[0]["messages"][0]["content"]
    assert text == {"type": "text", "text": "look"}
    assert base64.b64decode(image["image_url"]["url"].removeprefix("data:image/png;base64,")) == b"\x89PNG"


def test_text_that_is_no_unicode_arrives_all_the_same(provider: Provider) -> None:
    provider.answer = lambda body: {"message": {"content": "a\ud800"}}
    assert ask(connect(provider), user("x\udfffy")).text == "a\ufffd"
    assert provider.requests[0]["messages"][0]["content"] == "x\ufffdy"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_is_part_of_the_text(provider: Provider, name: str) -> None:
    provider.answer = lambda body: {"message": {"content": "\n\nup", name: "\nhm\n"}}
    assert ask(connect(provider), user("a")).text == "<think>\nhm\n</think>\n\nup"


def test_thinking_that_was_cut_stays_open(provider: Provider) -> None:
    provider.answer = lambda body: {"message": {"content": None, "reasoning": "hm"}, "finish_reason": "length"}
    reply = ask(connect(provider), user("a"))
    assert (reply.text, reply.finish) == ("<think>hm", "length")


def test_a_stop_text_that_the_server_names_is_put_back(provider: Provider) -> None:
    provider.answer = lambda body: {"message": {"content": "<answer>up"}, "stop_reason": "</answer>"}
    assert ask(connect(provider), user("a"), sampling=Sampling(stop=("</answer>",))).text == "<answer>up</answer>"


@pytest.mark.parametrize("way", [server.names_param, server.names_in_text, server.names_location])
def test_refused_parameters_are_left_out_for_the_rest_of_the_run(provider: Provider, way: Callable[[str], Any]) -> None:
    names = ("seed", "logprobs", "top_k", "min_p", "repetition_penalty", "return_token_ids")
    provider.rejects = dict.fromkeys(names, way)
    policy = connect(provider)
    assert ask(policy, user("a")).text == "you said a"
    negotiation = len(provider.requests)
    assert ask(policy, user("b")).text == "you said b"
    assert len(provider.requests) == negotiation + 1
    assert policy.fingerprint()["refused_parameters"] == sorted(names)


def test_max_completion_tokens_is_used_where_it_is_wanted(provider: Provider) -> None:
    provider.rejects = {"max_tokens": server.wants_completion_tokens}
    policy = connect(provider)
    assert ask(policy, user("a"), sampling=Sampling(max_tokens=3)).finish == "length"
    assert ask(policy, user("b"), sampling=Sampling(max_tokens=5)).text == "you s"
    assert [body.get("max_completion_tokens") for body in provider.requests] == [None, 3, 5]


@pytest.mark.parametrize(
    ("name", "sampling"),
    [("temperature", Sampling(0.0)), ("top_k", Sampling(top_k=5)), ("top_p", Sampling(top_p=0.5))],
)
def test_what_was_asked_for_is_never_dropped_in_silence(provider: Provider, name: str, sampling: Sampling) -> None:
    provider.rejects = {name: server.names_param}
    policy = connect(provider)
    assert ask(policy, user("a"), sampling=Sampling(temperature=1.0)).text == "you said a"
    with pytest.raises(UsageError, match=f"refuses {name}="):
        ask(policy, user("a"), sampling=sampling)


def test_a_reply_is_shortened_to_the_room_that_is_left(provider: Provider) -> None:
    provider.context = 10
    reply = ask(connect(provider), user("abc"))
    assert (reply.text, reply.finish) == ("you ", "length")


def test_no_room_at_all_is_a_full_context(provider: Provider) -> None:
    provider.context = 10
    with pytest.raises(ContextFull):
        ask(connect(provider), user("a long story"))
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("message", "room"),
    [
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
            "(4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            96,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 100. This model's maximum context length is "
            "40 tokens and your request has 20 input tokens (100 > 40 - 20).",
            20,
        ),
        (
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
            "5000 tokens: 4050 tokens from the input messages and 950 tokens for the completion.",
            46,
        ),
        ("This model's maximum context length is 40 tokens. However, your request has 50 input tokens.", 0),
        ("the request exceeds the available context size, try increasing it", 0),
    ],
)
def test_the_room_is_read_from_what_servers_say(message: str, room: int) -> None:
    refusal = Refusal(message)
    assert refusal.is_about_context
    assert refusal.room() == room
