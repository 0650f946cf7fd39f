"""From characters to tokens."""

from typing import NamedTuple

OPERATORS = "+-*/%^(),"


class FormulaError(ValueError):
    """A text is no formula; `position` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} at {position}")
        self.position = position


class Token(NamedTuple):
    """A piece of a formula: `number`, `name`, `operator` or `end`."""

    kind: str
    text: str
    position: int


def tokenize(text: str) -> list[Token]:
    """Cut a formula into tokens; the last one is `end`."""
    tokens = []
    at = 0
    while at < len(text):
        character = text[at]
        if character.isspace():
            at += 1
            continue
        start = at
        if character in OPERATORS:
            at += 1
            tokens.append(Token("operator", character, start))
        elif character.isdigit() or character == ".":
            at = _number_end(text, at)
            tokens.append(Token("number", text[start:at], start))
        elif character.isalpha() or character == "_":
            while at < len(text) and (text[at].isalnum() or text[at] == "_"):
                at += 1
            tokens.append(Token("name", text[start:at], start))
        else:
            raise FormulaError(f"unexpected {character!r}", at)
    tokens.append(Token("end", "", len(text)))
    return tokens


def _number_end(text: str, at: int) -> int:
    """Return where the number that begins at `at` ends."""
    start = at
    dots = 0
    while at < len(text) and (text[at].isdigit() or text[at] == "."):
        dots += text[at] == "."
        at += 1
    if dots > 1 or text[start:at] == ".":
        raise FormulaError(f"malformed number {text[start:at]!r}", start)
    if at < len(text) and text[at] in "eE":
        exponent = at + 1
        if exponent < len(text) and text[exponent] in "+-":
            exponent += 1
        if exponent < len(text) and text[exponent].isdigit():
            at = exponent
            while at < len(text) and text[at].isdigit():
                at += 1
    return at
