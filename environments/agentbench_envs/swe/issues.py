"""Issue texts for bugs that nobody reported, made from what the tests say; no language model, no randomness.

Four levels of hint, each with everything that the one before tells:

    none        what ought to hold, in the words of the tests' names, and what happens instead
    file        the files that need a change
    function    the functions
    tests       the ids of the failing tests, and the source of the first one
"""

import ast
import re
from typing import Final, Literal, get_args

from agentbench_envs.swe.tasks import Instance, Tree

Hints = Literal["none", "file", "function", "tests"]
HINTS: Final[tuple[Hints, ...]] = get_args(Hints)

SHOWN: Final = 3
"""Failing behaviours that an issue names, and messages that it quotes."""

LISTED: Final = 20
"""Ids of failing tests that the last level lists."""


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


def _story(instance: Instance) -> str:
    behaviours = list(dict.fromkeys(_sentence(test) for test in instance.fail_to_pass))
    shown = "\n".join(f"- {behaviour}" for behaviour in behaviours[:SHOWN])
    more = f"\n- and {len(behaviours) - SHOWN} more" if len(behaviours) > SHOWN else ""
    said = [message for message in dict.fromkeys(instance.failures.values()) if message][:SHOWN]
    instead = "\n\nWhat happens instead:\n\n" + "\n".join(f"    {message}" for message in said) if said else ""
    return f"{instance.repo} does not do what it should. These no longer hold:\n\n{shown}{more}{instead}"


def _sentence(test: str) -> str:
    """Make words of a test's name: `t.py::TestX::test_a_power_of_two[3]` becomes `a power of two (3)`."""
    name, _, parameters = test.rpartition("::")[2].partition("[")
    words = " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("test")).lower().split("_")).strip()
    return f"{words or name} ({parameters.removesuffix(']')})" if parameters else words or name


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
