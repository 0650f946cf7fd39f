"""The tree of a formula."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: int | float


@dataclass(frozen=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True)
class Unary:
    """A sign before an operand."""

    operator: str
    operand: "Node"


@dataclass(frozen=True)
class Binary:
    """An operator between two operands."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Call:
    """A function with its arguments."""

    function: str
    arguments: tuple["Node", ...]


Node = Number | Name | Unary | Binary | Call
