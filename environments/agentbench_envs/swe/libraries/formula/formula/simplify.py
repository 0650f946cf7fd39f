"""Shorter formulas of the same value."""

from formula.evaluate import EvaluationError, evaluate
from formula.nodes import Binary, Call, Name, Node, Number, Unary

ZERO = Number(0)
ONE = Number(1)


def simplify(node: Node) -> Node:
    """Compute what is constant, and drop zeros, ones and double signs."""
    match node:
        case Unary(_, operand):
            return _negated(simplify(operand))
        case Binary(operator, left, right):
            return _constant(_neutral(operator, simplify(left), simplify(right)))
        case Call(function, arguments):
            return _constant(Call(function, tuple(simplify(argument) for argument in arguments)))
        case Number() | Name():
            return node


def _negated(operand: Node) -> Node:
    match operand:
        case Unary(_, inner):
            return inner
        case Number(value):
            return Number(-value)
    return Unary("-", operand)


def _neutral(operator: str, left: Node, right: Node) -> Node:
    """Apply what 0 and 1 do to the other operand."""
    if operator == "+" and left == ZERO:
        return right
    if operator in "+-" and right == ZERO:
        return left
    if operator == "-" and left == ZERO:
        return _negated(right)
    if operator == "*" and ZERO in (left, right):
        return ZERO
    if operator == "*" and left == ONE:
        return right
    if operator in "*/^" and right == ONE:
        return left
    if operator == "^" and right == ZERO:
        return ONE
    return Binary(operator, left, right)


def _constant(node: Node) -> Node:
    """Replace a formula of constants by its value, if it has one."""
    try:
        return Number(evaluate(node))
    except EvaluationError:
        return node
