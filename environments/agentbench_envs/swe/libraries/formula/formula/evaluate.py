"""What a formula is worth."""

import math
from collections.abc import Callable, Mapping

from formula.nodes import Binary, Call, Name, Node, Number, Unary

Value = int | float


class EvaluationError(ValueError):
    """A formula has no value: an unknown name, a division by zero, a wrong call."""


FUNCTIONS: dict[str, tuple[Callable[..., Value], int, int | None]] = {
    "abs": (abs, 1, 1),
    "max": (max, 1, None),
    "min": (min, 1, None),
    "round": (round, 1, 2),
    "sqrt": (math.sqrt, 1, 1),
}
"""By name: the function, and how few and how many arguments it takes."""


def evaluate(node: Node, variables: Mapping[str, Value] | None = None) -> Value:
    """Compute a formula; whole results of whole operands stay whole.

    Raises:
        EvaluationError: There is no value.
    """
    variables = variables or {}
    match node:
        case Number(value):
            return value
        case Name(name):
            if name not in variables:
                raise EvaluationError(f"{name} has no value")
            return variables[name]
        case Unary(_, operand):
            return -evaluate(operand, variables)
        case Binary(operator, left, right):
            return _combine(operator, evaluate(left, variables), evaluate(right, variables))
        case Call(function, arguments):
            return _call(function, [evaluate(argument, variables) for argument in arguments])


def _combine(operator: str, left: Value, right: Value) -> Value:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "^":
        return _power(left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    if operator == "%":
        return left % right
    quotient = left / right
    whole = isinstance(left, int) and isinstance(right, int) and left % right == 0
    return left // right if whole else quotient


def _power(base: Value, exponent: Value) -> Value:
    if base == 0 and exponent < 0:
        raise EvaluationError("division by zero")
    if base < 0 and exponent != int(exponent):
        raise EvaluationError("a root of a negative number")
    if abs(exponent) > 1000:
        raise EvaluationError("the exponent is too large")
    value: Value = base**exponent
    return value


def _call(name: str, arguments: list[Value]) -> Value:
    if name not in FUNCTIONS:
        raise EvaluationError(f"there is no function {name}")
    function, least, most = FUNCTIONS[name]
    if len(arguments) < least or (most is not None and len(arguments) > most):
        raise EvaluationError(f"{name} does not take {len(arguments)} arguments")
    if name == "sqrt" and arguments[0] < 0:
        raise EvaluationError("a root of a negative number")
    if least == 1 and most is None and len(arguments) == 1:
        return arguments[0]
    return function(*arguments)


def names(node: Node) -> set[str]:
    """Return the variables of a formula."""
    match node:
        case Name(name):
            return {name}
        case Unary(_, operand):
            return names(operand)
        case Binary(_, left, right):
            return names(left) | names(right)
        case Call(_, arguments):
            return set().union(*(names(argument) for argument in arguments))
    return set()
