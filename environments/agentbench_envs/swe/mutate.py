"""Bugs made from working code: small changes at places that the syntax tree names.

A *mutation* replaces one stretch of a function's source; everything around it stays as it was written, so that the
difference shows no more than a person's slip would. A *recipe* says how many are made, and where:

    slip     one mutation                      several   two or three, in one file
    files    one in each of two files          body      a whole function body is gone

The kinds follow the procedural ones of SWE-smith (arXiv 2504.21798, appendix A): operators, constants, conditions,
arguments, assignments, calls, loops, bodies. Whether a mutant fails any test is for the tests to say (`build`).
"""

import ast
import difflib
import functools
import io
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

Recipe = Literal["slip", "several", "files", "body"]
RECIPES: Final[tuple[Recipe, ...]] = get_args(Recipe)

BODY: Final = "remove_body"

_SWAPPED: Final[dict[type[ast.AST], tuple[str, str, str]]] = {
    ast.Lt: ("change_comparison", "<", "<="),
    ast.LtE: ("change_comparison", "<=", "<"),
    ast.Gt: ("change_comparison", ">", ">="),
    ast.GtE: ("change_comparison", ">=", ">"),
    ast.Eq: ("change_comparison", "==", "!="),
    ast.NotEq: ("change_comparison", "!=", "=="),
    ast.In: ("change_comparison", "in", "not in"),
    ast.NotIn: ("change_comparison", "not in", "in"),
    ast.Is: ("change_comparison", "is", "is not"),
    ast.IsNot: ("change_comparison", "is not", "is"),
    ast.Add: ("change_operator", "+", "-"),
    ast.Sub: ("change_operator", "-", "+"),
    ast.Mult: ("change_operator", "*", "+"),
    ast.Div: ("change_operator", "/", "//"),
    ast.FloorDiv: ("change_operator", "//", "/"),
    ast.Mod: ("change_operator", "%", "//"),
    ast.And: ("change_connective", "and", "or"),
    ast.Or: ("change_connective", "or", "and"),
}
"""Kind, what stands there, and what is put there, by the operator's class."""

_OPPOSITE: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
}
"""Comparisons whose swap above is not their negation: what stands there, and what negates it."""


Function = ast.FunctionDef | ast.AsyncFunctionDef
Change = tuple[str, int, int, str]
"""Kind, start, end and text of a mutation."""


class Mutation(NamedTuple):
    """One change to one file."""

    kind: str
    file: str
    function: str
    """The outermost function that it lies in: whatever breaks a function breaks what is defined in it."""
    start: int
    """Offsets of the replaced stretch, in bytes of UTF-8."""
    end: int
    text: str


class Mutant(NamedTuple):
    """A tree with a bug."""

    mutations: tuple[Mutation, ...]
    bug: str
    """From the working tree to the broken one, as a unified diff."""
    fix: str
    """The reverse: the gold patch."""

    @property
    def places(self) -> list[str]:
        """The broken functions, as `file::function`."""
        return sorted({f"{one.file}::{one.function}" for one in self.mutations})


@functools.lru_cache(maxsize=256)
def mutations(source: str, file: str) -> tuple[Mutation, ...]:
    """Return every mutation of a Python file, in order of place; a file that is no Python has none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    finder = _Finder(source.encode(), _line_starts(source))
    found = {
        change[1:]: Mutation(change[0], file, function.name, *change[1:])
        for function in _functions(tree)
        for change in finder.changes(function)
    }
    return tuple(found[key] for key in sorted(found))


def mutate(tree: Mapping[str, str], recipe: Recipe, rng: np.random.Generator) -> Mutant | None:
    """Break a tree in one seeded way.

    Args:
        tree: The source files that may be broken: text by path.
        recipe: How many mutations, and where.
        rng: Draws files and mutations.

    Returns:
        The mutant; None where the tree has no place for this recipe.
    """
    places = {file: mutations(source, file) for file, source in sorted(tree.items()) if source.endswith("\n")}
    chosen = _choose(places, recipe, rng)
    if not chosen:
        return None
    broken = {file: apply(tree[file], [one for one in chosen if one.file == file]) for file in {m.file for m in chosen}}
    working = {file: tree[file] for file in broken}
    return Mutant(chosen, diff(working, broken), diff(broken, working))


def apply(source: str, chosen: list[Mutation]) -> str:
    """Apply mutations that do not overlap to the file that they belong to."""
    data = source.encode()
    for mutation in sorted(chosen, key=lambda one: one.start, reverse=True):
        data = data[: mutation.start] + mutation.text.encode() + data[mutation.end :]
    return data.decode()


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Write what changed between two versions of the same files as a patch for `git apply`."""
    parts: list[str] = []
    for file in sorted(before):
        old, new = (list(io.StringIO(version[file], newline="\n")) for version in (before, after))
        parts += difflib.unified_diff(old, new, f"a/{file}", f"b/{file}")
    return "".join(parts)


def _choose(places: dict[str, tuple[Mutation, ...]], recipe: Recipe, rng: np.random.Generator) -> tuple[Mutation, ...]:
    def of(file: str) -> list[Mutation]:
        return [one for one in places[file] if (one.kind == BODY) == (recipe == "body")]

    files = [file for file in places if of(file)]
    wanted = 2 if recipe == "files" else 1
    if len(files) < wanted:
        return ()
    # A file is drawn by the number of its places, so that every place is equally likely.
    weights = np.array([len(of(file)) for file in files], dtype=float)
    drawn = rng.choice(len(files), size=wanted, replace=False, p=weights / weights.sum())
    each = int(rng.integers(2, 4)) if recipe == "several" else 1
    return tuple(one for number in sorted(drawn) for one in _apart(of(files[number]), each, rng))


def _apart(candidates: list[Mutation], count: int, rng: np.random.Generator) -> list[Mutation]:
    """Draw mutations that do not overlap, and are of different kinds as far as there are any."""
    chosen: list[Mutation] = []
    for index in rng.permutation(len(candidates)):
        one = candidates[index]
        if all((one.end <= other.start or other.end <= one.start) and one.kind != other.kind for other in chosen):
            chosen.append(one)
        if len(chosen) == count:
            break
    return sorted(chosen, key=lambda one: one.start)


def _functions(node: ast.AST) -> Iterator[Function]:
    """Yield the outermost functions, methods among them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        else:
            yield from _functions(child)


def _line_starts(source: str) -> list[int]:
    """Return the byte at which each line begins; the tree counts lines as Python does, not as `splitlines`."""
    return [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", source.encode()))]


class _Finder:
    """Finds the changes in one file."""

    def __init__(self, data: bytes, lines: list[int]) -> None:
        self._data = data
        self._lines = lines

    def changes(self, function: Function) -> Iterator[Change]:
        """Yield what can be changed in an outermost function and in those within it, and gives another program."""
        before = self._parsed(function)
        for inner in ast.walk(function):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                for change in self._inside(inner):
                    after = self._parsed(function, change)
                    if after and after != before:
                        yield change

    def _parsed(self, function: Function, change: Change | None = None) -> str:
        """Return the tree of a function as text, with one change; empty where that is no program.

        Parsing the function instead of its file is what makes large files affordable.
        """
        start, end = self._whole_lines(function)
        _, first, last, text = change or ("", end, end, "")
        source = self._data[start:first] + text.encode() + self._data[last:end]
        try:
            return ast.dump(ast.parse(b"if True:\n" * (function.col_offset > 0) + source))
        except (SyntaxError, ValueError):
            return ""

    def _inside(self, function: Function) -> Iterator[Change]:
        """Yield changes in one function, without those within it, which are functions of their own."""
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        if len(body) > 1 or (body and not isinstance(body[0], ast.Pass | ast.Raise)):
            yield (BODY, self._start(body[0]), self._end(body[-1]), "pass")
        parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        other = dict(itertools.pairwise([name for name in parameters if name not in ("self", "cls")]))
        todo: list[ast.AST] = list(body)
        while todo:
            node = todo.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            yield from self._of(node)
            if isinstance(node, ast.Call):
                for name in node.args:
                    if isinstance(name, ast.Name) and name.id in other:
                        yield ("wrong_argument", *self._span(name), other[name.id])
            todo += ast.iter_child_nodes(node)

    def _of(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare(left, [operator], [right]):
                yield from self._swap(operator, left, right)
            case ast.BinOp(left, operator, right) if not isinstance(left, ast.Constant | ast.JoinedStr):
                yield from self._swap(operator, left, right)
            case ast.BoolOp(operator, [left, right]):
                yield from self._swap(operator, left, right)
            case ast.UnaryOp(ast.Not(), operand):
                yield ("drop_not", self._start(node), self._start(operand), "")
            case ast.Constant(value) if type(value) is int:
                yield ("change_constant", *self._span(node), str(value + 1))
            case ast.Constant(value) if type(value) is bool:
                yield ("change_constant", *self._span(node), str(not value))
            case ast.Call(_, [first, second, *_]) if not isinstance(first, ast.Starred | ast.GeneratorExp):
                yield ("swap_arguments", self._start(first), self._end(second), self._swapped(first, second))
            case ast.stmt():
                yield from self._of_statement(node)

    def _of_statement(self, node: ast.stmt) -> Iterator[Change]:
        match node:
            case ast.If(test) | ast.While(test):
                yield from self._invert(test)
            case ast.Return(value) if value is not None:
                yield ("return_nothing", self._start(node), self._end(node), "return None")
            case ast.Assign() | ast.AugAssign():
                yield ("remove_assignment", *self._whole_lines(node), "")
            case ast.Break():
                yield ("change_loop", *self._span(node), "continue")
            case ast.Continue():
                yield ("change_loop", *self._span(node), "break")
            case ast.Expr(ast.Call()):
                yield ("remove_call", *self._whole_lines(node), "")
        if isinstance(node, ast.If) and not node.orelse:
            yield ("remove_condition", *self._whole_lines(node), "")

    def _swap(self, operator: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Change]:
        kind, old, new = _SWAPPED.get(type(operator), ("", "", ""))
        yield from self._replace_between(left, right, kind, old, new)

    def _invert(self, test: ast.expr) -> Iterator[Change]:
        """Negate a condition as somebody would write it; `drop_not` and `change_comparison` do the other cases."""
        match test:
            case ast.Compare(left, [operator], [right]):
                old, new = _OPPOSITE.get(type(operator), ("", ""))
                yield from self._replace_between(left, right, "invert_condition", old, new)
            case ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript():
                yield ("invert_condition", *self._span(test), f"not {self._text(test)}")
            case ast.BoolOp() | ast.Compare():
                yield ("invert_condition", *self._span(test), f"not ({self._text(test)})")

    def _replace_between(self, left: ast.expr, right: ast.expr, kind: str, old: str, new: str) -> Iterator[Change]:
        """Replace the operator that stands between two expressions, of which the first may be in parentheses."""
        start, end = self._end(left), self._start(right)
        at = self._data[start:end].find(old.encode()) if old else -1
        if at >= 0:
            yield (kind, start + at, start + at + len(old), new)

    def _swapped(self, first: ast.expr, second: ast.expr) -> str:
        between = self._data[self._end(first) : self._start(second)].decode()
        return self._text(second) + between + self._text(first)

    def _whole_lines(self, node: ast.stmt) -> tuple[int, int]:
        """Return the lines of a statement; a block that loses its only one no longer parses, and is not offered."""
        assert node.end_lineno is not None
        return self._lines[node.lineno - 1], self._lines[node.end_lineno]

    def _text(self, node: ast.expr) -> str:
        return self._data[self._start(node) : self._end(node)].decode()

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self._start(node), self._end(node)

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset
