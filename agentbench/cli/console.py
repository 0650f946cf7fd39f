"""What a person sees (on stderr) and what a program reads (JSON lines on stdout)."""

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from agentbench.core.errors import RecordError
from agentbench.core.plain import plain

if TYPE_CHECKING:
    from typing import Self

_NUMBER = re.compile(r"-?[\d.,]*( %.*)?( ?\[.*\])?$")

LINE_SECONDS = 10.0
"""How often progress is told where there is no terminal to draw on."""


def console() -> Console:
    """Return the console for people: stderr, colours only on a terminal that wants them."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def say(text: str) -> None:
    """Tell a person something, as plain text."""
    console().print(escape(plain(text)), emoji=False)


def say_error(text: str) -> None:
    """Tell a person what went wrong, in one line."""
    console().print(f"[bold red]error:[/] {escape(plain(' '.join(text.split())))}", emoji=False)


def say_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Draw a table; columns of numbers are aligned right, columns of words left."""
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        cells = [row[number] for row in rows]
        numbers = all(_NUMBER.match(cell) for cell in cells)
        table.add_column(escape(column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console().print(table)


def emit(**record: Any) -> None:
    """Write one JSON object as one line on stdout.

    Raises:
        RecordError: Nobody reads it any more, or its disk is full.
    """
    try:
        sys.stdout.write(json.dumps(record, default=str) + "\n")
        sys.stdout.flush()
    except OSError as error:
        # Python would try the rest of its buffer again at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise RecordError(f"cannot write to standard output: {error.strerror}") from error


def percent(value: float | None) -> str:
    """Write a rate as people read it."""
    return "-" if value is None else f"{100 * value:.1f} %"


def number(value: float | None, digits: int = 2) -> str:
    """Write a number, or a dash for none."""
    return "-" if value is None else f"{value:.{digits}f}"


def interval(summary: Mapping[str, Any]) -> str:
    """Write the headline of a summary: success rate and its interval."""
    if summary["success"] is None:
        return "-"
    return f"{percent(summary['success'])} [{100 * summary['low']:.1f}, {100 * summary['high']:.1f}]"


class Ticker:
    """Progress of a run: a bar on a terminal, a line every ten seconds elsewhere.

    Args:
        total: Planned episodes.
        title: What is being played.
    """

    def __init__(self, total: int, title: str) -> None:
        self.total = total
        self.title = plain(title)
        self._bar: Progress | None = None
        self._told = time.monotonic()

    def __enter__(self) -> "Self":
        screen = console()
        if screen.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=screen, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, done: int) -> None:
        """Show how many episodes are scored."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        elif time.monotonic() - self._told >= LINE_SECONDS:
            self._told = time.monotonic()
            say(f"{self.title}: {done} of {self.total} episodes")
