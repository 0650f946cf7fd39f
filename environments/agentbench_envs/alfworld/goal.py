"""Goals, ground: the ways to win, each a set of facts that must hold together.

A goal of the original is a formula with quantifiers over every object of the room. Most of what it asks never changes
(types, affordances, places), so it is worked out once, when a game is loaded: what is left is a list of alternatives,
each a few changing facts, and the goal holds if all facts of one alternative do. That makes the check of a step a
handful of set operations, gives the planner its targets, and counts how many conditions of a task are reached.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from agentbench.core.errors import UsageError
from agentbench_envs.alfworld.pddl import Expression, Fact, Problem, atom

Alternative = frozenset[Fact]

CHANGING: Final = frozenset(
    ("atlocation", "holds", "inreceptacle", "isclean", "ishot", "iscool", "istoggled", "issliced", "opened",
     "objectatlocation")
)  # fmt: skip
"""Predicates that actions change."""

UNTRACKED: Final = frozenset(("checked", "ison", "holdsany"))
"""Predicates that actions change and this engine does not follow: no goal of the original names them."""

MOST_STEPS: Final = 300_000
"""Bindings and products that one goal may take; the original's take some thousand."""

MOST_ALTERNATIVES: Final = 5_000
"""The original's goals have up to some hundred."""


def alternatives(problem: Problem) -> tuple[Alternative, ...]:
    """Return the ways to reach a problem's goal; none, if it cannot be reached.

    Raises:
        UsageError: The goal is no formula of the domain, or far larger than any of the original's.
    """
    found = _Grounding(problem).formula(problem.goal, {})
    # Deterministic, whatever the order of sets: equal problems give equal plans.
    return tuple(sorted(found, key=sorted))


class _Grounding:
    """One pass over a formula, with a budget that keeps a hostile one from hanging."""

    def __init__(self, problem: Problem) -> None:
        self.facts = problem.facts
        self.names: dict[str, list[str]] = {}
        for name, kind in problem.objects.items():
            self.names.setdefault(kind, []).append(name)
        self.objects = problem.objects
        self.left = MOST_STEPS

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise UsageError("the goal is too large: grounding it was given up")

    def formula(self, formula: Expression, bound: Mapping[str, str]) -> set[Alternative]:
        """Return the alternatives of a formula whose free variables are bound."""
        self.spend()
        if not isinstance(formula, list) or not formula:
            raise UsageError(f"found {formula!r:.60} in the goal where a formula was expected")
        head, *parts = formula
        if head == "and":
            return self.all_of(parts, bound)
        if head == "or":
            return {one for part in parts for one in self.formula(part, bound)}
        if head == "exists" and len(parts) == 2:
            return {one for binding in self.bindings(parts, bound) for one in self.formula(parts[1], binding)}
        if head == "forall" and len(parts) == 2:
            return self.product(self.formula(parts[1], binding) for binding in self.bindings([parts[0], []], bound))
        if head in ("not", "="):
            return {frozenset()} if self.settled(formula, bound) else set()
        fact = self.ground(formula, bound)
        if fact[0] in UNTRACKED:
            raise UsageError(f"the goal asks for {fact[0]}, which no goal of ALFWorld does")
        if fact[0] in CHANGING:
            return {frozenset((fact,))}
        return {frozenset()} if fact in self.facts else set()

    def all_of(self, parts: list[Expression], bound: Mapping[str, str]) -> set[Alternative]:
        return self.product(self.formula(part, bound) for part in sorted(parts, key=self.changes))

    def product(self, sets: Iterator[set[Alternative]]) -> set[Alternative]:
        found: set[Alternative] = {frozenset()}
        for ways in sets:
            self.spend(len(found) * len(ways))
            found = {one | other for one in found for other in ways}
            if not found:
                break
            if len(found) > MOST_ALTERNATIVES:
                raise UsageError(f"the goal can be reached in more than {MOST_ALTERNATIVES:,} ways")
        return found

    def settled(self, formula: list[Expression], bound: Mapping[str, str]) -> bool:
        """Evaluate a formula that no action changes."""
        head, *parts = formula
        if head == "=":
            if len(parts) != 2:
                raise UsageError(f"found {len(parts)} arguments of =, expected 2")
            one, other = (bound.get(str(part), part) for part in parts)
            return one == other
        if head == "not":
            if len(parts) != 1 or not isinstance(parts[0], list) or self.changes(parts[0]):
                raise UsageError("found (not ...) of what may change in the goal, which no goal of ALFWorld has")
            return not self.settled(parts[0], bound)
        return self.ground(formula, bound) in self.facts

    def changes(self, formula: Expression) -> bool:
        """Tell whether a formula is more than a fixed predicate, an equality, or the negation of one."""
        if not isinstance(formula, list) or not formula or not isinstance(formula[0], str):
            return True
        if formula[0] == "not":
            return len(formula) != 2 or self.changes(formula[1])
        return formula[0] in CHANGING | UNTRACKED | {"and", "or", "exists", "forall"}

    def ground(self, formula: list[Expression], bound: Mapping[str, str]) -> Fact:
        return atom([bound.get(part, part) if isinstance(part, str) else part for part in formula], self.objects)

    def bindings(self, parts: list[Expression], bound: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """Yield the bindings of quantified variables that do not contradict a fixed conjunct of the body."""
        variables = _variables(parts[0])
        body = parts[1]
        conjuncts = body[1:] if isinstance(body, list) and body[:1] == ["and"] else [body]
        fixed = [part for part in conjuncts if isinstance(part, list) and not self.changes(part)]
        names = [name for name, _ in variables]
        checks: list[list[list[Expression]]] = [[] for _ in variables]
        for part in fixed:
            last = max((names.index(word) for word in _words(part) if word in names), default=-1)
            if last >= 0:
                checks[last].append(part)
        yield from self.bind(variables, checks, 0, dict(bound))

    def bind(
        self,
        variables: list[tuple[str, str]],
        checks: list[list[list[Expression]]],
        index: int,
        bound: dict[str, str],
    ) -> Iterator[dict[str, str]]:
        if index == len(variables):
            yield dict(bound)
            return
        variable, kind = variables[index]
        for name in self.names.get(kind, ()):
            self.spend()
            bound[variable] = name
            if all(self.settled(part, bound) for part in checks[index]):
                yield from self.bind(variables, checks, index + 1, bound)


def _variables(declaration: Expression) -> list[tuple[str, str]]:
    """Return name and type of each variable of `(?a - object ?b ?c - receptacle)`."""
    if not isinstance(declaration, list) or len(declaration) > 48:
        raise UsageError("found a quantifier without a list of up to 16 variables in the goal")
    found: list[tuple[str, str]] = []
    waiting: list[str] = []
    words = iter(declaration)
    for word in words:
        if word == "-":
            kind = next(words, None)
            found += [(name, str(kind)) for name in waiting]
            waiting = []
        elif isinstance(word, str) and word.startswith("?"):
            waiting.append(word)
        else:
            raise UsageError(f"found {word!r:.60} where the goal declares variables")
    return found + [(name, "object") for name in waiting]


def _words(formula: Expression) -> Iterator[str]:
    if isinstance(formula, str):
        yield formula
    else:
        for part in formula:
            yield from _words(part)
