"""Arithmetic written as text."""

from formula.evaluate import FUNCTIONS, EvaluationError, evaluate, names
from formula.nodes import Binary, Call, Name, Node, Number, Unary
from formula.parse import parse
from formula.show import show
from formula.simplify import simplify
from formula.tokens import FormulaError, Token, tokenize

__all__ = [
    "FUNCTIONS",
    "Binary",
    "Call",
    "EvaluationError",
    "FormulaError",
    "Name",
    "Node",
    "Number",
    "Token",
    "Unary",
    "evaluate",
    "names",
    "parse",
    "show",
    "simplify",
    "tokenize",
]
