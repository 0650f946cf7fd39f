from contextlib import suppress

import pytest
from agentbench_envs.swe.actions import shorten
from agentbench_envs.swe.tools import Call, MalformedError, parse, write
from hypothesis import given
from hypothesis import strategies as st

from tests.envs.webshop.test_search import takes_linear_time

words = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0<>"), min_size=1, max_size=50)


def test_a_block_of_shell_commands() -> None:
    reply = "I look first.\n\n```bash\nls -l\ncat x\n```\nThen I think."
    assert parse(reply) == Call("bash", {"command": "ls -l\ncat x"})


def test_a_call_with_several_lines() -> None:
    frame = "<parameter={}>\n{}\n</parameter>\n"
    inside = frame.format("path", "a.py") + frame.format("old", "x\ny") + frame.format("new", "z")
    assert parse(f"<function=edit>\n{inside}</function>") == Call("edit", {"path": "a.py", "old": "x\ny", "new": "z"})


@pytest.mark.parametrize(
    "reply", ["```bash\nsubmit\n```", "<function=submit>\n</function>", "<function=submit></function>"]
)
def test_ways_to_submit(reply: str) -> None:
    assert parse(reply) == Call("submit", {})


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "no actions"),
        ("ls", "no actions"),
        ("```python\nprint()\n```", "no actions"),
        ("```bash\nls\n```\n```bash\nls\n```", "2 actions"),
        (write("submit") + write("submit"), "2 actions"),
        ("```bash\n \n```", "empty"),
        (write("fly"), "no tool 'fly'"),
        (write("view"), "lacks path"),
        (write("undo", path="x"), "does not take"),
        (write("view", path="a\0b"), "NUL"),
        ("<function=view><parameter=path>a</parameter><parameter=path>b</parameter></function>", "twice"),
    ],
)
def test_what_is_malformed_is_explained(reply: str, reason: str) -> None:
    with pytest.raises(MalformedError, match=reason):
        parse(reply)


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        ("", "```bash\n"),
        ("", "```bash\n```x\n"),
        ("", "<function=a>"),
        ("", "<function="),
        ("<function=view>", "<parameter=a>"),
        ("<function=view>", "<parameter=a></parameter>x"),
        ("<function=view>", "<parameter=a></parameter> "),
        ("<function=view><parameter=path></parameter>", " "),
    ],
)
@pytest.mark.parametrize("end", ["", "</function>"])
def test_no_reply_takes_more_than_linear_time_to_read(start: str, piece: str, end: str) -> None:
    def read(pieces: list[str]) -> None:
        with suppress(MalformedError):
            parse(start + "".join(pieces) + end)

    assert takes_linear_time(read, [piece] * 8000)


@given(words, words, words)
def test_what_is_written_is_read(path: str, old: str, new: str) -> None:
    call = parse(write("edit", path=f"p{path}p", old=f"o{old}o", new=f"n{new}n"))
    assert call == Call("edit", {"path": f"p{path}p", "old": f"o{old}o", "new": f"n{new}n"})


@given(st.text(max_size=300))
def test_no_text_is_an_action_by_chance(reply: str) -> None:
    with pytest.raises(MalformedError):
        parse(reply)


@given(st.text(max_size=500), st.integers(200, 400))
def test_a_long_answer_keeps_head_and_tail(text: str, most: int) -> None:
    short = shorten(text, most)
    assert len(short) <= most + 60
    assert short == text or (short[:100] == text[:100] and short[-100:] == text[-100:])
