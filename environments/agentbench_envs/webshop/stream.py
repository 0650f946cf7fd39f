"""The elements of a JSON list or object, one at a time, from a file that need not fit into memory."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from agentbench.core.errors import UsageError

CHUNK: Final = 1 << 20
"""Bytes read at a time."""

_BLANKS = " \t\n\r"
_DELIMITERS: Final = frozenset(_BLANKS + ",:]}")
_DECODER = json.JSONDecoder()


class Element(NamedTuple):
    """An element, and where the file goes on after it."""

    value: Any
    """Of an object: the pair (key, value)."""
    end: int
    """In bytes; reading may begin again there."""


def elements(path: Path) -> Iterator[Any]:
    """Yield the elements of a list, or the (key, value) pairs of an object.

    Raises:
        UsageError: The file is not the JSON of a list or an object.
    """
    return (element.value for element in scan(path))


def scan(path: Path, start: int = 0, *, chunk: int = CHUNK) -> Iterator[Element]:
    """Yield elements with their positions.

    Args:
        path: A UTF-8 file that holds one list or one object.
        start: Where an earlier element ended; 0 is the beginning of the file.
        chunk: Bytes to read at a time.

    Raises:
        UsageError: The file is not the JSON of a list or an object.
    """
    with path.open("rb") as file:
        text = _Text(file, chunk)
        keyed = text.next() == "{"
        if text.position == 0 and not text.peek("[{"):
            raise UsageError(f"{path} holds no JSON list or object")
        if start:
            text.seek(start)
        else:
            text.skip(1)
        while True:
            while text.peek(","):
                text.skip(1)
            if text.peek("}" if keyed else "]") or not text.next():
                if not text.next():
                    raise UsageError(f"{path} ends before its list does, at byte {text.position}")
                return
            yield Element(text.pair(path) if keyed else text.value(path), text.position)


class _Text:
    """The part of a file that is being looked at."""

    def __init__(self, file: BinaryIO, chunk: int) -> None:
        self._file = file
        self._chunk = chunk
        self.seek(0)

    def seek(self, position: int) -> None:
        self._file.seek(position)
        self.position = position
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._buffer, self._at = "", 0

    def next(self) -> str:
        """Return the next character that is no blank, "" at the end; it stays to be read."""
        while True:
            rest = self._buffer[self._at :].lstrip(_BLANKS) if self._at < len(self._buffer) else ""
            if rest:
                self.skip(len(self._buffer) - self._at - len(rest))
                return rest[0]
            self.skip(len(self._buffer) - self._at)
            if not self._more():
                return ""

    def peek(self, characters: str) -> bool:
        following = self.next()
        return bool(following) and following in characters

    def skip(self, count: int) -> None:
        passed = self._buffer[self._at : self._at + count]
        self.position += len(passed) if passed.isascii() else len(passed.encode())
        self._at += count

    def value(self, path: Path) -> Any:
        """Read one value, however long it is."""
        while True:
            self.next()
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise UsageError(f"{path} is no JSON near byte {self.position}: {error.msg}") from error
                continue
            # What looks like a number may go on behind the buffer.
            if self._buffer[end : end + 1] in _DELIMITERS or not self._more():
                self.skip(end - self._at)
                return value

    def pair(self, path: Path) -> tuple[Any, Any]:
        key = self.value(path)
        if self.next() == ":":
            self.skip(1)
        return key, self.value(path)

    def _more(self) -> bool:
        """Read on; what was read already is dropped."""
        chunk = self._file.read(self._chunk)
        self._buffer = self._buffer[self._at :] + self._decoder.decode(chunk, final=not chunk)
        self._at = 0
        return bool(chunk)
