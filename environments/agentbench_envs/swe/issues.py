"""Issue texts for bugs that nobody reported, made from what the tests say; no language model, no randomness.

Four levels of hint, each with everything that the one before tells:

    none        what goes wrong, in the words of the tests' names, and what a user would see
    file        the files that need a change
    function    the functions
    tests       the ids of the failing tests, and the source of the first one

What a user would see is pytest's explanation of a failed assertion, put into words: the call, what it gives, and what
was expected. Nothing here looks at the bug.
"""

import ast
import re
from collections.abc import Iterable
from typing import Final, Literal, get_args

from agentbench_envs.swe.tasks import Instance, Tree

Hints = Literal["none", "file", "function", "tests"]
HINTS: Final[tuple[Hints, ...]] = get_args(Hints)

SHOWN: Final = 3
"""Failing behaviours that an issue describes."""

LISTED: Final = 20
"""Ids of failing tests that the last level lists."""

LONGEST: Final = 200
"""Characters of a value that an issue quotes."""

_SHOULD: Final = {
    "==": "should equal",
    "!=": "should differ from",
    "is": "should be",
    "is not": "should not be",
    "in": "should be in",
    "not in": "should not be in",
    "<": "should be less than",
    "<=": "should be at most",
    ">": "should be greater than",
    ">=": "should be at least",
}
_COMPARED = re.compile(rf" ({'|'.join(sorted(map(re.escape, _SHOULD), key=len, reverse=True))}) ")
_COMMENTED = re.compile(r"""((?:'[^']*'|"[^"]*"|[^'"])*?) : """)
"""What unittest found, before what the author of a test says about it."""
_NUMBERED = re.compile(r"[A-Za-z_]+\d+")
"""What pytest calls a parameter that it cannot write."""


def write_issue(instance: Instance, tree: Tree, hints: Hints) -> str:
    """Write the issue of a task.

    Args:
        instance: The task; where it comes with a problem statement, that is what stands first.
        tree: The repository with all its tests; empty where it is in an image.
        hints: How much is told.
    """
    parts = [instance.problem_statement.strip() or _story(instance)]
    level = HINTS.index(hints)
    if level >= 1:
        parts.append(f"The mistake is in {' and '.join(instance.repaired)}.")
    if level >= 2 and instance.function:
        names = [place.rpartition("::")[2] for place in instance.function.split()]
        parts.append(f"Look at {' and '.join(f'`{name}`' for name in names)}.")
    if level >= 3:
        parts.append(_tests(instance, tree))
    return "\n\n".join(parts)


def telling(failing: Iterable[str]) -> list[str]:
    """Choose the failing tests that an issue describes: of each behaviour the first, then further ones."""
    tests = sorted(failing)
    first = {_behaviour(test): test for test in reversed(tests)}
    chosen = sorted(first.values())
    return [*chosen, *(test for test in tests if test not in first.values())][:SHOWN]


def put_into_words(message: str) -> str:
    r"""Say what a failed test saw.

    Args:
        message: pytest's, with the lines that explain it.

    Example:
        >>> put_into_words("assert 3 == 4\n +  where 3 = add(1, 2)")
        '`add(1, 2)` gives `3`, expected `4`'
    """
    message = re.sub(r"<(?:[\w.]+\.)?(\w+) object(?: at 0x[0-9a-f]+)?>", r"\1", message)
    first, *others = message.split("\n")
    missing = re.search(r"DID NOT RAISE (?:<class ')?([\w.]+)|^AssertionError: ([\w.]+) not raised", first)
    if missing:
        return f"no `{(missing[1] or missing[2]).rpartition('.')[2]}` is raised"
    if "Regex pattern did not match" in first:
        said = dict(line.strip().partition(": ")[::2] for line in others)
        return f"the error says {_quoted(said.get('Actual message') or said.get('Input') or '')}"
    claim = first.removeprefix("AssertionError: ")
    if not claim.startswith("assert "):
        return _of_unittest(claim)
    sources = _sources(others)
    return _comparison(claim[7:], sources) or _bare(claim[7:], sources)


def _story(instance: Instance) -> str:
    described = [test for test in telling(instance.fail_to_pass) if test in instance.failures]
    found = "What I found" if described else "What goes wrong"
    described = described or telling(instance.fail_to_pass)
    cases = "\n".join(f"- {_sentence(test, instance.failures.get(test, ''))}" for test in described)
    left = len(instance.fail_to_pass) - len(described)
    more = f"\n\n{left} other case{'s' * (left > 1)} went wrong too." if left else ""
    return f"{instance.repo} does not do what it should. {found}:\n\n{cases}{more}"


def _sentence(test: str, message: str) -> str:
    """Make a line of a failed test: `t.py::TestX::test_a_power[3]` becomes `x: a power (3)` and what was seen."""
    parameters = test.rpartition("::")[2].partition("[")[2].removesuffix("]")
    shown = "-".join(part for part in parameters.split("-") if not _NUMBERED.fullmatch(part))
    said = put_into_words(message) if message else ""
    return _behaviour(test) + (f" ({shown})" if shown.strip("-") else "") + (f": {said}" if said else "")


def _behaviour(test: str) -> str:
    """Return what a test is about, from its name and its class; a single word is told with its file."""
    file, *classes, name = test.partition("[")[0].split("::")
    words = _words(name.removeprefix("test"))
    context = " ".join(
        _words(re.sub(r"^Tests?(?=[A-Z_])|Tests?(Case)?$|TestCase$", "", part)) for part in classes
    ).strip()
    if not context and " " not in words:
        context = _words(file.rpartition("/")[2].removesuffix(".py").removeprefix("test_").removesuffix("_test"))
    return f"{context}: {words}" if context and context not in words else words or name


def _words(name: str) -> str:
    """Split an identifier: `LRUCacheGet_2` becomes `lru cache get 2`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return " ".join(apart.lower().split("_")).strip()


def _sources(lines: list[str]) -> dict[str, str]:
    """Return what gave each value of an assertion, with what gave the values within it.

    pytest explains `assert show(parse("x")) == "y"` by ` +  where 'z' = show(Name('x'))` and, two blanks further in,
    ` +    where Name('x') = parse('x')`.
    """
    found = [match.groups() for line in lines if (match := re.match(r" \+( +)(?:where|and  ) (.*?) = (.*)", line))]
    expressions = [expression for _, _, expression in found]
    depths = [len(blanks) for blanks, _, _ in found]
    for child in reversed(range(len(found))):
        outer = next((each for each in reversed(range(child)) if depths[each] < depths[child]), None)
        if outer is not None:
            value = rf"(?<![\w.'\"]){re.escape(found[child][1])}(?![\w'\"])"
            expressions[outer] = re.sub(value, lambda _, inner=expressions[child]: inner, expressions[outer], count=1)
    top = min(depths, default=0)
    return {found[at][1]: expressions[at] for at in range(len(found)) if depths[at] == top}


def _comparison(claim: str, sources: dict[str, str]) -> str:
    """Say that a comparison does not hold; empty if the claim is none, or cannot be taken apart."""
    found = list(_COMPARED.finditer(claim))
    if len(found) != 1:
        return ""
    if claim.startswith("not "):
        return f"{_quoted(claim[4:])} should not hold"
    left, right = claim[: found[0].start()], claim[found[0].end() :]
    operator = found[0][1]
    if right in sources and left not in sources and operator in ("==", "!="):
        left, right = right, left
    if left in sources:
        expected = "expected" if operator in ("==", "is") else f"which {_SHOULD[operator]}"
        return f"{_quoted(sources[left])} gives {_quoted(left)}, {expected} {_quoted(right)}"
    return f"{_quoted(left)} {_SHOULD[operator]} {_quoted(right)}"


def _bare(claim: str, sources: dict[str, str]) -> str:
    """Say what a value is that should be true, or false after `not`; nothing where only that much is known."""
    value = claim.removeprefix("not ")
    if value in sources:
        return f"{_quoted(sources[value])} gives {_quoted(value)}"
    return "" if value in ("None", "True", "False") else f"{_quoted(claim)} should hold"


def _of_unittest(fact: str) -> str:
    """Say what unittest found, which is a fact and no claim, or which error was raised."""
    commented = _COMMENTED.match(fact)
    found = commented[1] if commented else fact
    if re.fullmatch(r"(None|True|False) is (not )?(true|false)", found):
        return ""
    sides = found.split(" != ")
    return f"{_quoted(sides[0])} should equal {_quoted(sides[1])}" if len(sides) == 2 else _quoted(fact)


def _quoted(text: str) -> str:
    text = text.strip()
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def _tests(instance: Instance, tree: Tree) -> str:
    ids = "\n".join(f"    {test}" for test in instance.fail_to_pass[:LISTED])
    left = len(instance.fail_to_pass) - LISTED
    more = f"\n    and {left} more" if left > 0 else ""
    source = _source(instance.fail_to_pass[0], tree)
    return f"These tests fail:\n\n{ids}{more}" + (f"\n\nThe first of them:\n\n{source}" if source else "")


def _source(test: str, tree: Tree) -> str:
    """Return the source of a test, indented; empty if it is not in the tree."""
    file, _, path = test.partition("::")
    name = path.rpartition("::")[2].partition("[")[0]
    try:
        text = tree[file].decode()
        nodes = ast.walk(ast.parse(text))
    except (KeyError, ValueError, SyntaxError):
        return ""
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join("    " + line for line in text.split("\n")[first - 1 : node.end_lineno])
    return ""
