"""From a tree back to text, with no parenthesis too many."""

from formula.nodes import Binary, Call, Name, Node, Number, Unary
from formula.parse import FROM_THE_RIGHT, PRECEDENCE, UNARY

ATOM = 9


def show(node: Node) -> str:
    """Write a formula so that parsing it gives the same tree."""
    match node:
        case Number(value):
            return _number(value)
        case Name(name):
            return name
        case Unary(operator, operand):
            return operator + _within(operand, UNARY)
        case Call(function, arguments):
            return f"{function}({', '.join(show(argument) for argument in arguments)})"
        case Binary(operator, left, right):
            strength = PRECEDENCE[operator]
            from_right = operator in FROM_THE_RIGHT
            first = _within(left, strength + from_right)
            second = _within(right, strength + (not from_right))
            return f"{first}{operator}{second}" if operator == "^" else f"{first} {operator} {second}"


def _within(node: Node, strength: int) -> str:
    """Write an operand, in parentheses if it binds less strongly than what stands around it."""
    text = show(node)
    return f"({text})" if _strength(node) < strength else text


def _strength(node: Node) -> int:
    match node:
        case Binary(operator):
            return PRECEDENCE[operator]
        case Unary():
            return UNARY
        case Number(value) if value < 0:
            return UNARY
    return ATOM


def _number(value: int | float) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.1f}"
    return repr(value)
