"""Problems are read as the original reads them, written so that they come back, and refused in one line."""

import re

import pytest
from agentbench_envs.alfworld.game import AlfworldGame
from agentbench_envs.alfworld.pddl import ARITIES, MOST_CHARACTERS, parse, write
from agentbench_envs.alfworld.scenes import Settings, draw_scene
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.core.errors import UsageError
from tests.envs.alfworld.games import problems
from tests.envs.alfworld.test_game import ROOM

TOKENS = ["(", ")", "define", "problem", ":domain", "alfred", ":objects", ":init", ":goal", "and", "or", "not",
          "exists", "forall", "=", "-", "?x", "?y", "object", "receptacle", "agent1", "mug_bar_1", "9" * 30, ";", "\n",
          *ARITIES]  # fmt: skip


def test_what_is_written_comes_back() -> None:
    for problem in [parse(text) for text, _ in problems().values()] + [draw_scene(Settings(), 0).world.problem]:
        assert parse(write(problem)) == problem


def test_names_are_read_in_lower_case_and_comments_are_skipped() -> None:
    plain = parse(ROOM)
    assert "fridgetype" in plain.objects
    assert parse(ROOM.upper().replace("(:INIT", "; (a remark (\n(:INIT")) == plain


def test_costs_and_distances_are_skipped() -> None:
    costs = "(= (total-cost) 0) (= (distance loc_bar_0 loc_bar_1) 22) "
    assert parse(ROOM.replace("(:init ", f"(:init {costs}")) == parse(ROOM)


def test_what_stands_behind_the_problem_is_ignored() -> None:
    assert parse(ROOM + ") )") == parse(ROOM)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no PDDL"),
        ("mug", "no PDDL"),
        ("(define)", r"no \(:objects"),
        (")", "did not open"),
        ("(" * 100_000, "nests more than"),
        ("(define" + " " * MOST_CHARACTERS, "expected at most"),
        (ROOM[: len(ROOM) // 2], "cut off"),
        (ROOM.replace("alfred", "blocks"), "expected alfred"),
        (ROOM.replace("(openable fridge_bar_1)", "(edible fridge_bar_1)"), "'edible', which the domain does not have"),
        (ROOM.replace("(openable fridge_bar_1)", "(openable)"), "0 arguments of openable, expected 1"),
        (ROOM.replace("(openable fridge_bar_1)", "(openable door_bar_1)"), "'door_bar_1', which is not declared"),
        (ROOM.replace("(openable fridge_bar_1)", "openable"), "among the first facts"),
        (ROOM.replace("agent1 - agent", "agent1 - robot"), "the type 'robot'"),
        (ROOM.replace("mugtype - otype", "mugtype"), "has no type"),
        (ROOM.replace("agent1 - agent", "(agent1) - agent"), "where a name was expected"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_is_no_problem_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        parse(text)
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


@given(st.lists(st.sampled_from(TOKENS), max_size=60))
@settings(max_examples=200)
def test_no_text_raises_anything_else(tokens: list[str]) -> None:
    problem = re.sub(r"\(:goal.*", " ".join(["(:goal", *tokens]), ROOM, flags=re.DOTALL)
    for text in (" ".join(tokens), problem, problem + "))"):
        try:
            game = AlfworldGame.from_pddl(text, "x")
            assert game.conditions[0] <= game.conditions[1]
        except UsageError:
            continue


@given(st.data())
@settings(max_examples=100)
def test_damaged_problems_are_refused_or_played(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(ROOM) - 1))
    length = data.draw(st.integers(1, 200))
    text = ROOM[:start] + data.draw(st.sampled_from(["", "(", ")", " x "])) + ROOM[start + length :]
    try:
        game = AlfworldGame.from_pddl(text, "x")
    except UsageError:
        return
    for command in game.reset()[1]:
        game.act(command)
