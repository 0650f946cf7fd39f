"""Rules and facts turned into bits: every action that could ever be possible, as three masks over an integer state.

A state is one integer, a bit per fact that some rule can change. An action is possible if `state & before == before`,
and leads to `state & ~delete | add`. Facts that nothing changes (the map, which key fits where) are used up while the
rules' variables are bound, so that what is left is small: a few dozen actions per room. This is the grounding of
classical planning, done once per game; playing and searching are then integer arithmetic.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from agentbench.core.errors import UsageError
from agentbench_envs.textworld.logic import Atom, Logic, Rule

PLAYER = "P"

MOST_BINDINGS = 300_000
"""Attempts at binding the rules' variables, more than any genuine game needs."""

MOST_ACTIONS = 40_000
"""Genuine games have up to some thousand."""

MOST_BITS = 20_000
"""Facts that may change; an action's masks are as long."""


class Action(NamedTuple):
    """A rule with entities for its variables."""

    command: str
    rule: str
    things: Mapping[str, str]
    """The entity of each variable."""
    before: int
    """Facts that must hold."""
    add: int
    delete: int
    weight: int
    """Number of preconditions; of two actions with one command, the original plays the one with more."""


class Grounding(NamedTuple):
    """A game's actions and the bits that they are written in."""

    actions: tuple[Action, ...]
    bits: dict[Atom, int]
    """One power of two per fact that may change."""
    fixed: frozenset[Atom]
    """Facts that hold for good."""
    start: int

    def mask(self, facts: Iterable[Atom]) -> int | None:
        """Return the bits of facts that shall hold together; None if one of them never can."""
        mask = 0
        for fact in facts:
            if fact in self.bits:
                mask |= self.bits[fact]
            elif fact not in self.fixed:
                return None
        return mask

    def facts(self, state: int) -> frozenset[Atom]:
        """Return what holds in a state."""
        return self.fixed | {fact for fact, bit in self.bits.items() if state & bit}


def ground(logic: Logic, facts: Iterable[Atom], kinds: Mapping[str, str], names: Mapping[str, str]) -> Grounding:
    """Bind the rules of a game to its entities.

    Args:
        logic: Types and rules.
        facts: What holds at the start.
        kinds: The type of each entity; the constants P and I are entities of their own.
        names: What the commands call each entity.

    Raises:
        UsageError: There are far more combinations than in any genuine game.
    """
    return _Grounder(logic, frozenset(facts), kinds, names).run()


class _Grounder:
    def __init__(
        self, logic: Logic, facts: frozenset[Atom], kinds: Mapping[str, str], names: Mapping[str, str]
    ) -> None:
        self.logic, self.facts, self.kinds, self.names = logic, facts, kinds, names
        self.by_name: dict[str, list[Atom]] = {}
        self.by_thing: dict[tuple[str, int, str], list[Atom]] = {}
        """The facts of a name that have an entity at a position."""
        for fact in sorted(facts):
            self.by_name.setdefault(fact.name, []).append(fact)
            for position, entity in enumerate(fact.arguments):
                self.by_thing.setdefault((fact.name, position, entity), []).append(fact)
        self.members = {kind: [entity for entity in kinds if logic.is_a(kinds[entity], kind)] for kind in logic.parents}
        self.changes: dict[str, set[tuple[bool, tuple[str, ...]]]] = {}
        """What rules do to facts of each name: whether they add it, and the types of its arguments."""
        for rule in logic.rules:
            for atom in set(rule.before) ^ set(rule.after):
                kinds_of = tuple(rule.types[variable] for variable in atom.arguments)
                self.changes.setdefault(atom.name, set()).add((atom in rule.after, kinds_of))
        self.fluent: dict[tuple[str, ...], bool] = {}
        self.gained: dict[tuple[str, ...], bool] = {}
        self.tried = 0

    def run(self) -> Grounding:
        bits: dict[Atom, int] = {}
        actions = []
        for rule in self.logic.rules:
            if rule.command is not None:
                for things in self.bind(rule):
                    actions.append(self.action(rule, things, bits))
                    if len(actions) > MOST_ACTIONS or len(bits) > MOST_BITS:
                        raise UsageError(f"found over {MOST_ACTIONS} actions or {MOST_BITS} facts that may change")
        for fact in sorted(self.facts):
            if self.may_change(fact):
                bits.setdefault(fact, 1 << len(bits))
        start = sum(bits[fact] for fact in self.facts if fact in bits)
        return Grounding(tuple(actions), bits, self.facts - bits.keys(), start)

    def bind(self, rule: Rule) -> Iterator[dict[str, str]]:
        """Yield every assignment under which the rule might become possible; different variables differ."""
        things = {variable: kind for variable, kind in rule.types.items() if kind[0].isupper()}
        fixed = [atom for atom in rule.before if not self.pattern_may_change(rule, atom)]
        loose = [atom for atom in rule.before if atom not in fixed]
        for partial in self.join(rule, fixed, things):
            missing = [variable for variable in rule.types if variable not in partial]
            for entities in product(*(self.members[rule.types[variable]] for variable in missing)):
                self.count()
                whole = partial | dict(zip(missing, entities, strict=True))
                if len(set(whole.values())) == len(whole) and all(self.possible(_bound(a, whole)) for a in loose):
                    yield whole

    def join(self, rule: Rule, atoms: list[Atom], things: dict[str, str]) -> Iterator[dict[str, str]]:
        """Yield the assignments of these atoms' variables under which all of them are facts."""
        if not atoms:
            yield things
            return
        atom = max(atoms, key=lambda atom: sum(variable in things for variable in atom.arguments))
        rest = [other for other in atoms if other is not atom]
        for fact in self.candidates(atom, things):
            self.count()
            match = self.match(rule, atom, fact, things)
            if match is not None:
                yield from self.join(rule, rest, match)

    def candidates(self, atom: Atom, things: dict[str, str]) -> list[Atom]:
        """Return the facts that an atom may be, as far as its first bound variable tells."""
        for position, variable in enumerate(atom.arguments):
            if variable in things:
                return self.by_thing.get((atom.name, position, things[variable]), [])
        return self.by_name.get(atom.name, [])

    def match(self, rule: Rule, atom: Atom, fact: Atom, things: dict[str, str]) -> dict[str, str] | None:
        if len(atom.arguments) != len(fact.arguments):
            return None
        things = dict(things)
        for variable, entity in zip(atom.arguments, fact.arguments, strict=True):
            if variable in things:
                if things[variable] != entity:
                    return None
            elif entity in things.values() or not self.logic.is_a(self.kinds[entity], rule.types[variable]):
                return None
            things[variable] = entity
        return things

    def action(self, rule: Rule, things: dict[str, str], bits: dict[Atom, int]) -> Action:
        before = [_bound(atom, things) for atom in rule.before]
        after = [_bound(atom, things) for atom in rule.after]

        def mask(facts: Iterable[Atom]) -> int:
            total = 0
            for fact in facts:
                if self.may_change(fact):
                    total |= bits.setdefault(fact, 1 << len(bits))
            return total

        command = rule.phrase({variable: self.names.get(entity, entity) for variable, entity in things.items()})
        add = mask(fact for fact in after if fact not in before)
        delete = mask(fact for fact in before if fact not in after)
        return Action(command, rule.name, things, mask(before), add, delete, len(before))

    def may_change(self, fact: Atom) -> bool:
        """Tell whether a rule adds or removes facts like this one."""
        key = (fact.name, *map(self.kinds.__getitem__, fact.arguments))
        if key not in self.fluent:
            changes = self.changes.get(fact.name, ())
            self.fluent[key] = any(self.covers(kinds, key[1:]) for _, kinds in changes)
            self.gained[key] = any(added and self.covers(kinds, key[1:]) for added, kinds in changes)
        return self.fluent[key]

    def possible(self, fact: Atom) -> bool:
        """Tell whether a fact holds at the start or can be brought about."""
        if fact in self.facts:
            return True
        return self.may_change(fact) and self.gained[fact.name, *map(self.kinds.__getitem__, fact.arguments)]

    def pattern_may_change(self, rule: Rule, atom: Atom) -> bool:
        kinds = [rule.types[variable] for variable in atom.arguments]
        return any(
            len(change) == len(kinds) and all(map(self.logic.related, kinds, change))
            for _, change in self.changes.get(atom.name, ())
        )

    def covers(self, pattern: tuple[str, ...], kinds: tuple[str, ...]) -> bool:
        return len(pattern) == len(kinds) and all(map(self.logic.is_a, kinds, pattern))

    def count(self) -> None:
        self.tried += 1
        if self.tried > MOST_BINDINGS:
            raise UsageError(f"the rules apply to the things of this game in over {MOST_BINDINGS} ways")


def _bound(atom: Atom, things: Mapping[str, str]) -> Atom:
    return Atom(atom.name, tuple([things[variable] for variable in atom.arguments]))


def each_bit(mask: int) -> Iterator[int]:
    """Yield the bits of a mask, each as a power of two."""
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
