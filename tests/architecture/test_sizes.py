"""Files and functions stay small enough to be held in one head, and every file has a subject."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "agentbench").rglob("*.py"), *(ROOT / "environments").rglob("*.py")])
FILE_LINES = 400
BODY_LINES = 60
LONGER = {"train": 80, "run_episode": 80}
NO_SUBJECT = ("utils", "helpers", "common", "misc")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    last = function.end_lineno
    assert last is not None
    return last - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_has_a_subject(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines < FILE_LINES
    assert path.stem not in NO_SUBJECT
    assert "manager" not in path.stem


def test_bodies_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}: {body_lines(function)} lines"
        for path in SOURCES
        for function in functions(path)
        if body_lines(function) > LONGER.get(function.name, BODY_LINES)
    ]
    assert long == []
