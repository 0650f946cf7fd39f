import ast

import numpy as np
import pytest
from agentbench_envs.swe.mutate import BODY, RECIPES, Recipe, apply, mutate, mutations
from agentbench_envs.swe.tasks import LIBRARIES, read_tree

SOURCE = '''\
"""Module: π."""


def f(x, y):
    """Say something."""
    total = x + y  # é before it
    if not x and y < 3:
        total = g(y, x)
    print(total)
    return total


LIMIT = 3
'''


def kinds(source: str) -> dict[str, str]:
    return {one.kind: apply(source, [one]) for one in mutations(source, "m.py")}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("change_operator", "    total = x - y  # é before it"),
        ("change_comparison", "    if not x and y <= 3:"),
        ("change_connective", "    if not x or y < 3:"),
        ("change_constant", "    if not x and y < 4:"),
        ("drop_not", "    if x and y < 3:"),
        ("invert_condition", "    if not (not x and y < 3):"),
        ("swap_arguments", "        total = g(x, y)"),
        ("wrong_argument", "        total = g(y, y)"),
        ("return_nothing", "    return None"),
        (BODY, "    pass"),
    ],
)
def test_every_kind_changes_what_it_says(kind: str, line: str) -> None:
    changed = kinds(SOURCE)[kind]
    assert line in changed.split("\n")
    assert set(SOURCE.split("\n")) - set(changed.split("\n")), "nothing went away"


def test_what_is_removed_leaves_no_trace() -> None:
    found = kinds(SOURCE)
    assert "total = x + y" not in found["remove_assignment"]
    assert "if not x" not in found["remove_condition"]
    assert "print" not in found["remove_call"]
    assert "pass" not in found["remove_assignment"] + found["remove_condition"] + found["remove_call"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x < y", "x >= y"),
        ("(x) <= (y)", "(x) > (y)"),
        ("x", "not x"),
        ("x.y(1)", "not x.y(1)"),
        ("x < y < 3", "not (x < y < 3)"),
    ],
)
def test_a_condition_is_inverted_as_somebody_would_write_it(before: str, after: str) -> None:
    source = "def f(x, y):\n    if {}:\n        return 1\n"
    inverted = [one for one in mutations(source.format(before), "m.py") if one.kind == "invert_condition"]
    assert [apply(source.format(before), [one]) for one in inverted] == [source.format(after)]


def test_what_is_defined_in_a_function_counts_as_that_function() -> None:
    source = "class C:\n    def outer(self):\n        def inner():\n            return 1\n        return inner\n"
    found = mutations(source, "m.py")
    assert "return None\n        return inner" in "".join(apply(source, [one]) for one in found)
    assert {one.function for one in found} == {"outer"}


def test_no_two_mutations_make_the_same_program() -> None:
    made = [apply(SOURCE, [one]) for one in mutations(SOURCE, "m.py")]
    assert len(set(made)) == len(made)


def test_only_functions_are_broken_and_docstrings_stay() -> None:
    for changed in kinds(SOURCE).values():
        assert "LIMIT = 3" in changed
        assert '"""Say something."""' in changed


def test_a_file_that_is_no_python_has_no_mutations() -> None:
    assert mutations("def f(:\n", "m.py") == ()


@pytest.mark.parametrize("library", sorted(path.name for path in LIBRARIES.iterdir()))
@pytest.mark.parametrize("recipe", RECIPES)
def test_mutants_of_our_libraries_are_programs_and_their_fix_is_the_reverse(library: str, recipe: Recipe) -> None:
    tree = {
        name: content.decode()
        for name, content in read_tree(library).items()
        if name.endswith(".py") and not name.startswith("tests/")
    }
    for seed in range(5):
        mutant = mutate(tree, recipe, np.random.default_rng(seed))
        assert mutant is not None
        assert mutant == mutate(tree, recipe, np.random.default_rng(seed))
        files = {one.file for one in mutant.mutations}
        assert len(files) == (2 if recipe == "files" else 1)
        for file in files:
            broken = apply(tree[file], [one for one in mutant.mutations if one.file == file])
            assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(tree[file]))
        removed = sorted(line[1:] for line in mutant.bug.split("\n") if line.startswith("-") and line[:3] != "---")
        restored = sorted(line[1:] for line in mutant.fix.split("\n") if line.startswith("+") and line[:3] != "+++")
        assert removed == restored


def test_a_tree_without_a_place_gives_no_mutant() -> None:
    assert mutate({"m.py": "X = 1\n"}, "slip", np.random.default_rng(0)) is None
