"""TextWorld's language of rules (`.twl`): types, rules over typed variables, and the commands that name them.

    type c : t {
        predicates { open(c); closed(c); in(o, c); }
        rules      { open/c :: $at(P, r) & $at(c, r) & closed(c) -> open(c); }
        inform7    { commands { open/c :: "open {c}" :: "opening the {c}"; } }
    }

A variable's type is its name without primes (`r'` is a room), or stands behind a colon. `$` keeps a precondition. A
type with a capital letter has one member of its own name: P the player, I the inventory. Distinct variables of a rule
stand for distinct things. Every game brings its own rules in its `.json`, so nothing here knows about doors or keys
(Côté et al. 2018, arXiv 1806.11532).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from agentbench.core.errors import UsageError

MOST_TEXT = 1_000_000
"""Characters of rules; the genuine ones have 12,000 to 40,000."""

MOST_RULES = 1_000

MOST_TYPES = 200
"""The genuine rules have 10 to 30."""

MOST_ATOMS = 64
"""Preconditions, or effects, of one rule."""

MOST_PARAMETERS = 8
"""Arguments of one predicate, and parents of one type."""

_TOKEN = re.compile(
    r'"""(?:.|\n)*?"""|"[^"]*"|#[^\n]*|::|->|[{}();:,&$=]|(?:(?!->)[^\s{}();:,&$="#])+|\s+|(?P<wrong>.)'
)

_SLOT = re.compile(r"\{([^{}]*)\}")


class Atom(NamedTuple):
    """A predicate over variables (in a rule) or over entities (then it is a fact)."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What can be done: all of `before` must hold; then `after` holds, and what of `before` is not in it ends."""

    name: str
    before: tuple[Atom, ...]
    after: tuple[Atom, ...]
    types: Mapping[str, str]
    """The type of each variable."""
    command: str | None = None
    """What an agent says, with `{variables}`; None if no command names the rule."""

    def phrase(self, names: Mapping[str, str]) -> str:
        """Write the command with names for its variables."""
        return _SLOT.sub(lambda slot: names.get(slot[1], slot[0]), self.command or "")


@dataclass(slots=True)
class Logic:
    """The rules of a game."""

    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    """Sorted by name."""
    constraints: tuple[Rule, ...] = ()
    """What no state may match."""
    spoken: set[Atom] = field(default_factory=set)
    """Predicates, over types, that the compiled original can test; others it leaves out of a quest's conditions."""
    _ancestors: dict[str, frozenset[str]] = field(default_factory=dict)

    def is_a(self, kind: str, ancestor: str) -> bool:
        """Tell whether a type is another, or below it."""
        return ancestor in self._ancestors.get(kind, ())

    def related(self, kind: str, other: str) -> bool:
        """Tell whether one of two types is the other, or below it."""
        return self.is_a(kind, other) or self.is_a(other, kind)

    def can_say(self, name: str, kinds: tuple[str, ...]) -> bool:
        """Tell whether the compiled original can test a fact of these types."""
        return any(self._fits(name, kinds, atom) for atom in self.spoken)

    def _fits(self, name: str, kinds: tuple[str, ...], atom: Atom) -> bool:
        same = atom.name == name and len(atom.arguments) == len(kinds)
        return same and all(map(self.is_a, kinds, atom.arguments))

    def close(self) -> None:
        """Collect each type's ancestors.

        Raises:
            UsageError: A type is its own ancestor, or its parent is unknown.
        """
        done: dict[str, frozenset[str]] = {}
        waiting = dict(self.parents)
        while waiting:
            ready = [kind for kind, parents in waiting.items() if all(parent in done for parent in parents)]
            if not ready:
                raise UsageError(f"the types {_some(waiting)} have unknown parents, or are their own ancestors")
            for kind in ready:
                done[kind] = frozenset({kind}).union(*(done[parent] for parent in waiting.pop(kind)))
        self._ancestors = done


@lru_cache(maxsize=64)
def parse(text: str) -> Logic:
    """Read rules.

    Raises:
        UsageError: The text is too long, is not in the language, or its types or aliases run in a circle.
    """
    if len(text) > MOST_TEXT:
        raise UsageError(f"found {len(text)} characters of rules, expected at most {MOST_TEXT}")
    return _Reader(text).read()


class _Predicate(NamedTuple):
    """An atom as written, with the type of each argument."""

    atom: Atom
    kinds: tuple[str, ...]


class _Reader:
    """One pass over the tokens; the language nests to a fixed depth, so nothing recurses."""

    def __init__(self, text: str) -> None:
        self.tokens = [*_tokens(text), ""]
        self.at = 0
        self.logic = Logic()
        self.aliases: dict[Atom, tuple[Atom, list[_Predicate]]] = {}
        self.rules: dict[str, tuple[list[_Predicate], list[_Predicate]]] = {}
        self.constraints: dict[str, tuple[list[_Predicate], list[_Predicate]]] = {}
        self.commands: dict[str, str] = {}

    def read(self) -> Logic:
        while self.tokens[self.at]:
            self.expect("type")
            self.read_type()
        logic = self.logic
        logic.close()
        logic.rules = tuple(sorted(self.finish(self.rules), key=lambda rule: rule.name))
        logic.constraints = tuple(self.finish(self.constraints))
        return logic

    def read_type(self) -> None:
        name = self.word()
        parents: list[str] = []
        while self.skip(":") or (parents and self.skip(",")):
            parents.append(self.word())
        if name in self.logic.parents or len(parents) > MOST_PARAMETERS:
            raise UsageError(f"the rules define the type {name[:40]!r} twice, or with too many parents")
        if len(self.logic.parents) == MOST_TYPES:
            raise UsageError(f"the rules define more than {MOST_TYPES} types")
        self.logic.parents[name] = tuple(parents)
        self.block(
            {
                "predicates": self.read_predicate,
                "rules": lambda: self.read_rule(self.rules),
                "constraints": lambda: self.read_rule(self.constraints),
                "reverse_rules": self.pass_over,
            },
            {"inform7": self.read_inform},
        )

    def read_inform(self) -> None:
        sections = {"type": self.pass_over, "predicates": self.read_spoken, "commands": self.read_command}
        self.block(sections, {"code": self.pass_over})

    def block(self, sections: Mapping[str, Callable[[], None]], others: Mapping[str, Callable[[], None]]) -> None:
        """Read `{ name { line line ... } ... }`; `others` read what stands behind their name themselves."""
        self.expect("{")
        while not self.skip("}"):
            name = self.word()
            if name in others:
                others[name]()
                continue
            if name not in sections:
                raise UsageError(f"the rules have an unknown section {name[:40]!r}; expected {', '.join(sections)}")
            self.expect("{")
            while not self.skip("}"):
                sections[name]()

    def pass_over(self) -> None:
        while not self.skip(";"):
            self.take()

    def read_predicate(self) -> None:
        pattern = self.predicate()
        if self.skip("="):
            self.aliases[Atom(pattern.atom.name, pattern.kinds)] = (pattern.atom, self.conjunction()[0])
        self.expect(";")

    def read_rule(self, rules: dict[str, tuple[list[_Predicate], list[_Predicate]]]) -> None:
        name = self.word()
        if name in rules or len(rules) == MOST_RULES:
            raise UsageError(f"the rules define {name[:40]!r} twice, or are more than {MOST_RULES}")
        self.expect("::")
        before, kept = self.conjunction()
        self.expect("->")
        after, _ = self.conjunction()
        self.expect(";")
        rules[name] = (before, kept + after)

    def read_spoken(self) -> None:
        name, kinds = self.predicate()
        self.expect("::")
        if self.string():
            self.logic.spoken.add(Atom(name.name, kinds))
        self.expect(";")

    def read_command(self) -> None:
        name = self.word()
        self.expect("::")
        self.commands[name] = self.string()
        self.expect("::")
        self.string()
        self.expect(";")

    def conjunction(self) -> tuple[list[_Predicate], list[_Predicate]]:
        """Read `$a(x) & b(y)`; return all of them, and those that are kept."""
        every: list[_Predicate] = []
        kept: list[_Predicate] = []
        while True:
            keeps = self.skip("$")
            every.append(self.predicate())
            if keeps:
                kept.append(every[-1])
            if len(every) > MOST_ATOMS:
                raise UsageError(f"a rule has more than {MOST_ATOMS} preconditions or effects")
            if not self.skip("&"):
                return every, kept

    def predicate(self) -> _Predicate:
        name = self.word()
        arguments: list[str] = []
        kinds: list[str] = []
        self.expect("(")
        while not self.skip(")"):
            if arguments:
                self.expect(",")
            arguments.append(self.word())
            kinds.append(self.word() if self.skip(":") else arguments[-1].rstrip("'"))
        if len(arguments) > MOST_PARAMETERS:
            raise UsageError(f"the predicate {name[:40]!r} has more than {MOST_PARAMETERS} arguments")
        return _Predicate(Atom(name, tuple(arguments)), tuple(kinds))

    def finish(self, rules: Mapping[str, tuple[list[_Predicate], list[_Predicate]]]) -> Iterator[Rule]:
        """Replace aliases and check types."""
        for name, (before, after) in rules.items():
            sides = [list(self.expand(side)) for side in (before, after)]
            types = {v: k for side in sides for atom, kinds in side for v, k in zip(atom.arguments, kinds, strict=True)}
            if unknown := set(types.values()) - self.logic.parents.keys():
                raise UsageError(f"the rule {name[:40]!r} has variables of unknown types {_some(unknown)}")
            old, new = (tuple(dict.fromkeys(predicate.atom for predicate in side)) for side in sides)
            yield Rule(name, old, new, types, self.commands.get(name))

    def expand(self, predicates: Iterable[_Predicate]) -> Iterator[_Predicate]:
        waiting = list(predicates)[::-1]
        replaced = 0
        while waiting:
            predicate = waiting.pop()
            alias = self.aliases.get(Atom(predicate.atom.name, predicate.kinds))
            if alias is None:
                yield predicate
                continue
            replaced += 1
            if replaced > MOST_ATOMS:
                raise UsageError(
                    f"the predicate {predicate.atom.name[:40]!r} is defined by itself, or by too many others"
                )
            pattern, meaning = alias
            given = dict(zip(pattern.arguments, predicate.atom.arguments, strict=True))
            for atom, kinds in reversed(meaning):
                arguments = tuple(given.get(variable, variable) for variable in atom.arguments)
                waiting.append(_Predicate(Atom(atom.name, arguments), kinds))

    def take(self) -> str:
        token = self.tokens[self.at]
        if not token:
            raise UsageError("the rules end in the middle of a definition")
        self.at += 1
        return token

    def skip(self, token: str) -> bool:
        found = self.tokens[self.at] == token
        self.at += found
        return found

    def expect(self, token: str) -> None:
        found = self.take()
        if found != token:
            raise UsageError(f"the rules have {found[:40]!r} where {token!r} was expected")

    def word(self) -> str:
        found = self.take()
        if not (found[0].isalnum() or found[0] in "_!"):
            raise UsageError(f"the rules have {found[:40]!r} where a name was expected")
        return found

    def string(self) -> str:
        found = self.take()
        if found[0] != '"':
            raise UsageError(f"the rules have {found[:40]!r} where a text in quotes was expected")
        return found.strip('"')


def _tokens(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match["wrong"]:
            raise UsageError(f"the rules have a stray {token!r}")
        if not (token.isspace() or token[0] == "#"):
            yield token


def _some(names: Iterable[str]) -> str:
    """Write a few names."""
    return ", ".join(repr(name[:40]) for name in sorted(names)[:5])
