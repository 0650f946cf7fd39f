"""The language of rules, worked by hand."""

import pytest
from agentbench_envs.textworld.command import understand
from agentbench_envs.textworld.ground import ground
from agentbench_envs.textworld.logic import Atom, parse
from agentbench_envs.textworld.rules import HOUSE, KITCHEN

SMALL = """
type r { predicates { at(P, r); far_of(r, r') = near_of(r', r); }  # a comment
         rules { go :: at(P, r) & $far_of(r, r') -> at(P, r'); }
         inform7 { predicates { at(P, r) :: "The player is in {r}"; near_of(r, r') :: ""; }
                   commands { go :: "go to {r'}" :: "going"; } } }
type P { }
type t { }
type box : t { inform7 { type { kind :: "container"; } code :: \"\"\" any; { text } \"\"\"; } }
"""


def test_a_rule_keeps_what_has_a_dollar_and_sees_through_aliases() -> None:
    (rule,) = parse(SMALL).rules
    assert rule.before == (Atom("at", ("P", "r")), Atom("near_of", ("r'", "r")))
    assert rule.after == (Atom("near_of", ("r'", "r")), Atom("at", ("P", "r'")))
    assert rule.types == {"P": "P", "r": "r", "r'": "r"}
    assert rule.phrase({"r'": "hall"}) == "go to hall"


def test_types_know_their_ancestors_and_what_can_be_said() -> None:
    logic = parse(SMALL)
    assert logic.is_a("box", "t") and not logic.is_a("t", "box")
    assert logic.can_say("at", ("P", "r"))
    assert not logic.can_say("near_of", ("r", "r")), "an empty sentence says nothing"


def test_grounding_binds_different_variables_to_different_things() -> None:
    facts = [Atom("at", ("P", "a")), Atom("near_of", ("b", "a")), Atom("near_of", ("a", "a"))]
    found = ground(parse(SMALL), facts, {"P": "P", "a": "r", "b": "r"}, {"b": "barn"})
    (action,) = found.actions
    assert action.command == "go to barn"
    assert found.facts(found.start & ~action.delete | action.add) == {*facts[1:], Atom("at", ("P", "b"))}


@pytest.mark.parametrize("text", [HOUSE, KITCHEN], ids=["house", "kitchen"])
def test_every_rule_of_ours_has_a_command(text: str) -> None:
    assert all(rule.command for rule in parse(text).rules)


COMMANDS = ["drop old key", "examine chest", "examine old key", "go north", "inventory", "look", "open chest",
            "put old key on table", "take coin from chest", "take gold coin", "unlock gate with old key"]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("north", ["go north"]),
        ("N", ["go north"]),
        ("  Look. ", ["look"]),
        ("i", ["inventory"]),
        ("get the coin", ["take coin from chest"]),
        ("take gold", ["take gold coin"]),
        ("put key", []),
        ("put old key on", []),
        ("put key on", []),
        ("take coin from", []),
        ("put key on the table", ["put old key on table"]),
        ("drop", ["drop old key"]),
        ("drop all", ["drop old key"]),
        ("unlock the gate", ["unlock gate with old key"]),
        ("unlock gate with", ["unlock gate with old key"]),
        ("unlock with", []),
        ("x key", ["examine old key"]),
        ("take", []),
        ("examine", []),
        ("take coin chest", []),
        ("take all", []),
        ("open the door of perception", []),
        ("go up", []),
        ("", []),
        ("x " * 200, []),
    ],
)
def test_short_forms_mean_one_command_or_none(said: str, meant: list[str]) -> None:
    assert list(understand(said, COMMANDS)) == meant


def test_a_key_is_not_guessed_where_more_than_one_thing_is_carried() -> None:
    assert list(understand("unlock gate", ["drop coin", *COMMANDS])) == []
    assert list(understand("unlock gate with key", ["drop coin", *COMMANDS])) == ["unlock gate with old key"]
