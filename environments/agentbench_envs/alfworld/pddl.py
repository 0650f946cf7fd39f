"""Problems: the objects, first facts and goal of one game, from and to PDDL and the original's game files.

The original hands PDDL to the Fast Downward planner, which reads every name in lower case; so does this module. Files
come from anywhere, so reading is bounded: sizes and depths have caps, nothing recurses into what was read, and
whatever does not fit is refused with one line. Costs and distances, which no rule looks at, are skipped.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from agentbench.core.errors import UsageError

Expression = str | list["Expression"]
"""A parsed s-expression: a name, or a list of expressions."""

Fact = tuple[str, ...]
"""A predicate's name and its arguments: `("inreceptacle", "mug_bar_1", "shelf_bar_2")`."""

ARITIES: Final = {
    "atlocation": 2, "cancontain": 2, "checked": 1, "cleanable": 1, "coolable": 1, "examined": 1, "full": 1,
    "heatable": 1, "holds": 2, "holdsany": 1, "holdsanyreceptacleobject": 1, "inreceptacle": 2,
    "inreceptacleobject": 2, "isclean": 1, "iscool": 1, "ishot": 1, "ison": 1, "isreceptacleobject": 1,
    "isreceptacleobjectfull": 1, "issliced": 1, "istoggled": 1, "moveable": 1, "objectatlocation": 2,
    "objecttype": 2, "openable": 1, "opened": 1, "pickupable": 1, "receptacleatlocation": 2, "receptacletype": 2,
    "sliceable": 1, "toggleable": 1, "wasinreceptacle": 2,
}  # fmt: skip
"""Arguments of each predicate of the original's domain (`alfred.pddl`)."""

TYPES: Final = ("agent", "location", "receptacle", "object", "rtype", "otype")

MOST_CHARACTERS: Final = 4_000_000
"""Genuine problems have up to some 300,000."""

MOST_DEPTH: Final = 64

_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")
_NAME = re.compile(r"[a-z0-9_+\-.|]+")


class Problem(NamedTuple):
    """What distinguishes one game from another."""

    objects: dict[str, str]
    """The type of each name."""
    facts: frozenset[Fact]
    """What holds at the start."""
    goal: Expression
    """A formula of and, or, not, exists, forall, = and predicates."""


def parse(text: str) -> Problem:
    """Read a PDDL problem of the ALFRED domain.

    Raises:
        UsageError: The text is too large, no PDDL, or names what the domain does not know.
    """
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"found a problem of {len(text):,} characters, expected at most {MOST_CHARACTERS:,}")
    sections = {}
    for section in _sections(_read(text)):
        sections[section[0]] = section[1:]
    for needed in (":objects", ":init", ":goal"):
        if needed not in sections:
            raise UsageError(f"the problem has no ({needed} ...) section")
    objects = dict(_typed(sections[":objects"]))
    if len(sections[":goal"]) != 1:
        raise UsageError(f"found {len(sections[':goal'])} goals, expected one formula")
    return Problem(objects, frozenset(_facts(sections[":init"], objects)), sections[":goal"][0])


def formula(text: str) -> Expression:
    """Read the formula of a goal."""
    return _read(text)


def _read(text: str) -> list[Expression]:
    """Parse the one s-expression of a text."""
    top: list[Expression] = []
    open_lists = [top]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            inner: list[Expression] = []
            open_lists[-1].append(inner)
            open_lists.append(inner)
            if len(open_lists) > MOST_DEPTH:
                raise UsageError(f"the problem nests more than {MOST_DEPTH} parentheses")
        elif token != ")":
            open_lists[-1].append(token)
        elif len(open_lists) == 1:
            raise UsageError("the problem closes a parenthesis that it did not open")
        else:
            open_lists.pop()
        if len(open_lists) == 1 and token == ")":
            break  # the original reads one expression, and some of its files go on after it
    if len(open_lists) > 1:
        raise UsageError("the problem ends inside parentheses: is the file cut off?")
    if not top or not isinstance(top[-1], list):
        raise UsageError("found no PDDL, expected (define (problem ...) ...)")
    return top[-1]


def _sections(definition: list[Expression]) -> Iterator[list[Any]]:
    if not definition or definition[0] != "define":
        raise UsageError("found no PDDL problem, expected (define (problem ...) ...)")
    for section in definition[1:]:
        if not isinstance(section, list) or not section or not isinstance(section[0], str):
            raise UsageError(f"found {_shown(section)} between the problem's sections")
        if section[0] == ":domain" and section[1:] != ["alfred"]:
            raise UsageError(f"found a problem of the domain {_shown(section[1:])}, expected alfred")
        yield section


def _typed(names: list[Expression]) -> Iterator[tuple[str, str]]:
    """Yield name and type of `a b - type c - type`."""
    waiting: list[str] = []
    words = iter(names)
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"found {_shown(word)} where a name was expected")
        if word != "-":
            waiting.append(word)
            continue
        kind = next(words, None)
        if kind not in TYPES:
            raise UsageError(f"found the type {_shown(kind)}, expected one of {', '.join(TYPES)}")
        yield from ((name, str(kind)) for name in waiting)
        waiting = []
    if waiting:
        raise UsageError(f"{_shown(waiting[0])} has no type")


def _facts(init: list[Expression], objects: dict[str, str]) -> Iterator[Fact]:
    for entry in init:
        if not isinstance(entry, list) or not entry:
            raise UsageError(f"found {_shown(entry)} among the first facts")
        if entry[0] not in ("=", "not"):
            yield atom(entry, objects)


def atom(entry: list[Expression], known: Any) -> Fact:
    """Return a predicate with its arguments.

    Args:
        entry: The expression.
        known: Names that may be arguments.

    Raises:
        UsageError: The domain has no such predicate, or it takes other arguments.
    """
    name, *arguments = (part if isinstance(part, str) else "(" for part in entry)
    if name not in ARITIES:
        raise UsageError(f"found the predicate {_shown(entry[0])}, which the domain does not have")
    if len(arguments) != ARITIES[name]:
        raise UsageError(f"found {len(arguments)} arguments of {name}, expected {ARITIES[name]}")
    for argument in arguments:
        if argument not in known:
            raise UsageError(f"{name} names {_shown(argument)}, which is not declared")
    return (name, *arguments)


def _shown(part: object) -> str:
    text = repr(part)
    return text if len(text) <= 60 else text[:60] + "..."


def write(problem: Problem) -> str:
    """Write a problem as PDDL that the original engine plays."""
    lines = ["(define (problem game)", "(:domain alfred)", "(:objects"]
    lines += [f"  {name} - {kind}" for name, kind in problem.objects.items()]
    lines += [")", "(:init", *(f"  ({' '.join(fact)})" for fact in sorted(problem.facts)), ")"]
    return "\n".join([*lines, f"(:goal {_written(problem.goal)})", ")", ""])


def _written(expression: Expression) -> str:
    return expression if isinstance(expression, str) else f"({' '.join(map(_written, expression))})"
