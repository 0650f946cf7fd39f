"""Reading what anybody may have written: every way in which a file can be broken ends as one clear line.

The annotations of a dataclass are the schema of its record: `Shape.of(Turn).misfit(value)` says what keeps a JSON
object from being a `Turn`. Tuples are lists in JSON, whole numbers may stand where decimal ones are expected, and none
is larger than a machine's word: what is would end in an OverflowError far from here.
"""

import functools
import json
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentbench.core.errors import IntegrityError

Check = Callable[[Any], bool]

_TYPES: Mapping[Any, frozenset[type]] = {
    str: frozenset({str}),
    bool: frozenset({bool}),
    int: frozenset({int}),
    float: frozenset({float, int, bool}),
}
"""What each kind of value is in JSON."""


MOST_BYTES = 1 << 28
"""What a packed record may unpack to: more is no evaluation but an attack."""


def unpack(packed: bytes) -> bytes:
    """Return what gzip packed into one member.

    Raises:
        ValueError: It unpacks to more than `MOST_BYTES`, or is cut off.
        zlib.error: It is damaged.
    """
    machine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = machine.decompress(packed, MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it unpacks to more than {MOST_BYTES >> 20} MiB")
    if not machine.eof or machine.unused_data:
        raise ValueError("it is not one whole gzip member")
    return content


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        IntegrityError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise IntegrityError(f"{path} cannot be read: {error}") from error


def read_text(path: Path) -> str:
    """Return the text in a file.

    Raises:
        IntegrityError: It cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{path} cannot be read: {error}") from error


def read_json(path: Path) -> Any:
    """Return the value in a JSON file.

    Raises:
        IntegrityError: It cannot be read, is no JSON, or is nested too deeply.
    """
    return parse_json(f"{path} cannot be read", read_bytes(path))


def parse_json(complaint: str, text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Args:
        complaint: What to say before the reason if it is none.
        text: The text, or its bytes.

    Raises:
        IntegrityError: It is no JSON, or is nested too deeply.
    """
    try:
        return json.loads(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{complaint}: {error}") from error


@dataclass(frozen=True, slots=True)
class Shape:
    """What a JSON object should say."""

    checks: Mapping[str, Check]
    """By field."""
    optional: Collection[str] = ()
    """Fields that may be missing."""
    closed: bool = False
    """Other fields are refused."""

    @classmethod
    def of(cls, kind: type) -> "Shape":
        """Return the shape of a dataclass's record."""
        return _shape_of(kind)

    def misfit(self, value: Any) -> str | None:
        """Say what keeps a value from having this shape, as the end of a sentence; None if nothing does."""
        if not isinstance(value, dict):
            return "is no JSON object"
        for name, check in self.checks.items():
            if name not in value:
                if name not in self.optional:
                    return f"lacks {name!r}"
            elif not check(value[name]):
                return f"has no {name} that could be true"
        more = value.keys() - self.checks.keys() if self.closed else ()
        return f"has a field {min(more)!r} that is none" if more else None


@functools.cache
def _shape_of(kind: type[Any]) -> Shape:
    hints, own = get_type_hints(kind), fields(kind)
    optional = {f.name for f in own if (f.default, f.default_factory) != (MISSING, MISSING)}
    return Shape({f.name: check_of(hints[f.name]) for f in own}, optional, closed=True)


def check_of(kind: Any) -> Check:
    """Return what tells whether a JSON value is of a kind.

    Args:
        kind: An annotation: of plain types, literals, unions, lists, tuples of one kind, dictionaries, dataclasses.
    """
    origin, inside = get_origin(kind) or kind, get_args(kind)
    if origin is Any:
        return lambda value: True
    if origin in (Union, UnionType):
        checks = [check_of(one) for one in inside]
        return lambda value: any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in inside
    if origin in (list, tuple):
        every = _all_of(inside[0])
        return lambda value: isinstance(value, list) and every(value)
    if origin is dict:
        every = _all_of(inside[1])
        return lambda value: isinstance(value, dict) and every(value.values())
    if isinstance(origin, type) and is_dataclass(origin):
        shape = _shape_of(origin)
        return lambda value: shape.misfit(value) is None
    if origin is type(None):
        return lambda value: value is None
    types = _TYPES[origin]
    return lambda value: type(value) in types and (type(value) is not int or _is_word(value))


def _all_of(kind: Any) -> Callable[[Collection[Any]], bool]:
    """Return what tells whether all of many values are of a kind; records hold many tokens, so this is fast."""
    types = _TYPES.get(kind)
    if types is None:
        check = check_of(kind)
        return lambda values: all(map(check, values))

    def every(values: Collection[Any]) -> bool:
        found = {*map(type, values)}
        if not found <= types or int not in found:
            return found <= types
        whole = values if len(found) == 1 else [value for value in values if type(value) is int]
        return _is_word(min(whole)) and _is_word(max(whole))

    return every


def _is_word(number: int) -> bool:
    return -(2**63) <= number < 2**64
