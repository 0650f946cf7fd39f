"""From a history to messages, and from a reply to an action."""

import pytest

from agentbench.core.errors import UsageError
from agentbench.core.types import Message
from agentbench.rollout.context import NO_ANSWER, SUMMARY, TAGGED, ContextSpec, Conversation, Extracted


def shown(conversation: Conversation, observation: str) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in conversation.messages(observation)]


def played(spec: ContextSpec, *exchanges: tuple[str, str]) -> Conversation:
    conversation = Conversation("Be good.", spec)
    for observation, reply in exchanges:
        conversation.messages(observation)
        conversation.extract(reply)
    return conversation


SYSTEM = ("system", "Be good.")
THREE = (("o0", "r0"), ("o1", "r1"), ("o2", "r2"))


def test_full_shows_every_observation_and_reply_in_order() -> None:
    messages = shown(played(ContextSpec(), *THREE), "o3")
    history = [("user", "o0"), ("assistant", "r0"), ("user", "o1"), ("assistant", "r1"), ("user", "o2")]
    assert messages == [SYSTEM, *history, ("assistant", "r2"), ("user", "o3")]


@pytest.mark.parametrize(
    ("k", "history"),
    [
        (0, []),
        (1, [("user", "o2"), ("assistant", "r2")]),
        (2, [("user", "o1"), ("assistant", "r1"), ("user", "o2"), ("assistant", "r2")]),
    ],
)
def test_a_window_shows_the_last_k_turns(k: int, history: list[tuple[str, str]]) -> None:
    assert shown(played(ContextSpec(f"window:{k}"), *THREE), "o3") == [SYSTEM, *history, ("user", "o3")]


def test_a_window_wider_than_the_episode_shows_all_of_it() -> None:
    assert shown(played(ContextSpec("window:9"), *THREE), "o3") == shown(played(ContextSpec(), *THREE), "o3")


def test_summary_shows_what_the_policy_wrote_last_and_nothing_else_of_the_past() -> None:
    spec = ContextSpec("summary")
    conversation = played(spec, ("o0", "up <memory>\nwall ahead\n</memory>"))
    system = ("system", f"Be good.\n\n{SUMMARY}")
    assert shown(conversation, "o1") == [system, ("user", "Your memory:\nwall ahead\n\no1")]
    assert conversation.extract("left") == Extracted("left", True)
    assert shown(conversation, "o2")[-1] == ("user", "Your memory:\nwall ahead\n\no2"), "silence forgets nothing"
    conversation.extract("<memory>a</memory>right<memory>b</memory>")
    assert shown(conversation, "o3")[-1] == ("user", "Your memory:\nb\n\no3")
    conversation.extract("<memory></memory>down")
    assert shown(conversation, "o4") == [system, ("user", "o4")], "an empty memory is a memory"


def test_the_memory_is_no_part_of_the_action() -> None:
    conversation = Conversation("", ContextSpec("summary"))
    conversation.messages("o")
    assert conversation.extract("<memory>wall</memory>\nup") == Extracted("up", True)
    conversation = Conversation("", ContextSpec("summary", "tagged"))
    conversation.messages("o")
    assert conversation.extract("<memory>say <answer>no</answer></memory><answer>up</answer>").action == "up"


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("up", "up"),
        ("  up\n", "  up\n"),
        ("", ""),
        ("<answer>up</answer>", "<answer>up</answer>"),
        ("<think>a wall\nthere</think>up", "up"),
        ("<THINK>a</THINK>up<think>b</think>", "up"),
        ("<think>never ends, up", ""),
        ("up <think", "up <think"),
        ("a < b > c [/answer]", "a < b > c [/answer]"),
    ],
)
def test_a_plain_reply_is_the_action_without_its_thoughts(reply: str, action: str) -> None:
    conversation = Conversation("", ContextSpec())
    conversation.messages("o")
    assert conversation.extract(reply) == Extracted(action, True)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<think>hm</think><answer>up</answer>", "up"),
        ("<answer> up \n</answer> and more", "up"),
        ("<ANSWER>up</Answer>", "up"),
        ("<answer>no</answer> wait <answer>up</answer>", "up"),
        ("<think><answer>no</answer></think><answer>up</answer>", "up"),
        ("<answer>two\nlines</answer>", "two\nlines"),
        ("<answer></answer>", ""),
        ("<think>hm</think><answer>up", "up"),
    ],
)
def test_a_tagged_reply_says_its_action_between_the_tags(reply: str, action: str) -> None:
    conversation = Conversation("", ContextSpec(format="tagged"))
    conversation.messages("o")
    assert conversation.extract(reply) == Extracted(action, True)


@pytest.mark.parametrize(
    "reply",
    ["up", "", "answer>up", "up</answer>", "</answer>up", "<think><answer>up</answer></think>",
     "<think><answer>up</answer>", "<answer/>", "\x00\ud800"],
)  # fmt: skip
def test_a_malformed_reply_is_no_action_and_the_next_message_says_so_once(reply: str) -> None:
    conversation = Conversation("", ContextSpec(format="tagged"))
    conversation.messages("o0")
    assert conversation.extract(reply) == Extracted("", False)
    assert shown(conversation, "o1")[-1] == ("user", f"{NO_ANSWER}\n\no1")
    conversation.extract("<answer>up</answer>")
    assert shown(conversation, "o2")[-1] == ("user", "o2")
    assert ("user", f"{NO_ANSWER}\n\no1") in shown(conversation, "o2"), "the past is shown as it was"


def test_the_note_is_shown_in_every_mode() -> None:
    for mode in ("full", "window:0", "summary"):
        conversation = played(ContextSpec(mode, "tagged"), ("o0", "<memory>m</memory>nothing"))
        assert NO_ANSWER in shown(conversation, "o1")[-1][1]


def test_the_rules_of_format_and_mode_are_told_after_the_instructions() -> None:
    (system, _) = Conversation("  Be good.\n", ContextSpec("summary", "tagged")).messages("o")
    assert system == Message("system", f"Be good.\n\n{TAGGED}\n\n{SUMMARY}")
    assert shown(Conversation("Be good.", ContextSpec()), "o")[0] == SYSTEM


def test_images_belong_to_the_present_observation_and_stay_in_the_history() -> None:
    conversation = Conversation("", ContextSpec())
    assert conversation.messages("o0", (b"png",))[-1].images == (b"png",)
    conversation.extract("up")
    assert [message.images for message in conversation.messages("o1")] == [(), (b"png",), (), ()]


@pytest.mark.parametrize("mode", ["window", "window:", "window:-1", "window:x", "Full", "", "window:1:2", "windows:1"])
def test_an_unknown_mode_is_a_users_mistake(mode: str) -> None:
    with pytest.raises(UsageError, match="full, window:K"):
        ContextSpec(mode)


def test_an_unknown_format_is_a_users_mistake() -> None:
    with pytest.raises(UsageError, match="plain or tagged"):
        ContextSpec(format="json")  # type: ignore[arg-type]


def test_thoughts_that_the_prompt_opened_are_no_action() -> None:
    conversation = Conversation("Play.", ContextSpec())
    conversation.messages("go")
    assert conversation.extract("the box is left of me</think>left").action == "left"
