"""What a formula of a goal comes down to, beside a plain evaluation of it."""

import pytest
from agentbench_envs.alfworld.game import AlfworldGame
from agentbench_envs.alfworld.goal import alternatives
from agentbench_envs.alfworld.pddl import Expression, Fact, Problem, formula, parse

from agentbench.core.errors import UsageError
from agentbench.core.seeding import generator
from tests.envs.alfworld.games import problems
from tests.envs.alfworld.test_game import ROOM


def holds(goal: Expression, facts: set[Fact], problem: Problem, bound: dict[str, str]) -> bool:
    """Evaluate a formula as it stands: try every object for every variable."""
    assert isinstance(goal, list)
    head, *parts = goal
    if head == "and":
        return all(holds(part, facts, problem, bound) for part in parts)
    if head == "or":
        return any(holds(part, facts, problem, bound) for part in parts)
    if head == "not":
        return not holds(parts[0], facts, problem, bound)
    if head in ("exists", "forall"):
        names: list[str] = []
        bindings = [bound]
        words = iter(parts[0])
        for word in words:
            if word != "-":
                names.append(str(word))
                continue
            kind = next(words)
            own = [name for name, of in problem.objects.items() if of == kind]
            for name in names:
                bindings = [one | {name: value} for one in bindings for value in own]
            names = []
        results = [holds(parts[1], facts, problem, binding) for binding in bindings]
        return any(results) if head == "exists" else all(results)
    arguments = [bound.get(str(part), str(part)) for part in parts]
    return arguments[0] == arguments[1] if head == "=" else (str(head), *arguments) in facts


@pytest.mark.parametrize(
    "goal",
    [
        "(exists (?o - object ?r - receptacle) (and (inreceptacle ?o ?r) (objecttype ?o appletype)))",
        "(exists (?o - object) (and (not (= ?o mug_bar_1)) (holds agent1 ?o)))",
        "(forall (?o - object) (or (not (cleanable ?o)) (isclean ?o)))",
        "(or (holds agent1 mug_bar_1) (and (isclean apple_bar_1) (iscool apple_bar_1)))",
        "(exists (?a ?b - object ?r - receptacle) (and (inreceptacle ?a ?r) (inreceptacle ?b ?r) "
        "(objecttype ?a knifetype) (objecttype ?b appletype) (exists (?l - location) (atlocation agent1 ?l))))",
        "(and)",
        "(or)",
    ],
)
def test_alternatives_hold_exactly_where_the_formula_does(goal: str) -> None:
    problem = parse(ROOM)._replace(goal=formula(goal))
    ways = alternatives(problem)
    game = AlfworldGame.from_pddl(ROOM, "x")
    rng = generator("goal walk")
    seen = set()
    for _ in range(300):
        facts = {*game.world.fixed, *game.state.facts}
        reached = any(way <= facts for way in ways)
        assert reached == holds(problem.goal, facts, problem, {})
        seen.add(reached)
        admissible = game.admissible
        game.act(admissible[int(rng.integers(len(admissible)))])
    assert seen in ({True, False}, {True}, {False})


def test_the_originals_goals_are_a_few_facts_each() -> None:
    for text, _ in problems().values():
        ways = alternatives(parse(text))
        assert 1 <= len(ways) <= 500
        assert all(1 <= len(way) <= 4 for way in ways)


@pytest.mark.parametrize(
    ("goal", "complaint"),
    [
        ("mug", "no PDDL"),
        ("()", "where a formula was expected"),
        ("(and mug)", "where a formula was expected"),
        ("(wins agent1)", "'wins', which the domain does not have"),
        ("(holds agent1 ?o)", "not declared"),
        ("(checked agent1)", "which no goal of ALFWorld does"),
        ("(not (holds agent1 mug_bar_1))", "which no goal of ALFWorld has"),
        ("(= agent1)", "arguments of ="),
        ("(exists ?o (holds agent1 ?o))", "without a list"),
        ("(exists (a - object) (holds agent1 a))", "declares variables"),
        (f"(exists ({' '.join(f'?o{k}' for k in range(40))} - object) (holds agent1 ?o0))", "too large"),
        (f"(and {' '.join(f'(exists (?o{k} ?p{k} - object) (inreceptacleobject ?p{k} ?o{k}))' for k in range(9))} "
         f"{'(or (exists (?o - object) (holds agent1 ?o)) (exists (?o - object) (isclean ?o)))' * 12})", ""),
    ],
    ids=lambda value: value[:24],
)  # fmt: skip
def test_goals_that_cannot_be_are_refused_in_one_line(goal: str, complaint: str) -> None:
    if complaint == "":
        assert alternatives(parse(ROOM)._replace(goal=formula(goal))) == ()
        return
    with pytest.raises(UsageError, match=complaint) as refused:
        alternatives(parse(ROOM)._replace(goal=formula(goal)))
    assert len(str(refused.value)) < 200


def test_a_goal_that_multiplies_is_given_up() -> None:
    many = " ".join("(exists (?o - object ?r - receptacle) (inreceptacle ?o ?r))" for _ in range(9))
    with pytest.raises(UsageError, match=r"too large|more than"):
        alternatives(parse(ROOM)._replace(goal=formula(f"(and {many})")))
