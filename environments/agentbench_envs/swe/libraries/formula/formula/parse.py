"""From tokens to a tree, by precedence climbing."""

from formula.nodes import Binary, Call, Name, Node, Number, Unary
from formula.tokens import FormulaError, Token, tokenize

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 4}
UNARY = 3
FROM_THE_RIGHT = {"^"}


def parse(text: str) -> Node:
    """Parse a formula.

    Raises:
        FormulaError: The text is no formula.
    """
    parser = _Parser(tokenize(text))
    node = parser.expression(1)
    parser.expect("end")
    return node


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.index = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def take(self) -> Token:
        token = self.token
        self.index += 1
        return token

    def expect(self, text: str) -> Token:
        if self.token.text != text and self.token.kind != text:
            found = repr(self.token.text) if self.token.text else "the end"
            raise FormulaError(f"expected {text}, found {found}", self.token.position)
        return self.take()

    def expression(self, weakest: int) -> Node:
        """Parse operators that bind at least as strongly as `weakest`."""
        left = self.operand()
        while self.token.kind == "operator" and PRECEDENCE.get(self.token.text, 0) >= weakest:
            operator = self.take().text
            stronger = PRECEDENCE[operator] + (operator not in FROM_THE_RIGHT)
            left = Binary(operator, left, self.expression(stronger))
        return left

    def operand(self) -> Node:
        token = self.token
        if token.text in ("-", "+"):
            self.take()
            operand = self.expression(UNARY)
            return Unary("-", operand) if token.text == "-" else operand
        if token.kind == "number":
            self.take()
            return Number(_number(token.text))
        if token.kind == "name":
            self.take()
            return self.call(token.text) if self.token.text == "(" else Name(token.text)
        self.expect("(")
        inside = self.expression(1)
        self.expect(")")
        return inside

    def call(self, function: str) -> Node:
        self.expect("(")
        arguments = []
        while self.token.text != ")":
            arguments.append(self.expression(1))
            if self.token.text != ",":
                break
            self.take()
        self.expect(")")
        return Call(function, tuple(arguments))


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)
