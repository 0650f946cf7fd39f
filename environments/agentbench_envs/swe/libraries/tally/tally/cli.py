"""The command line."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tally.filters import parse_filter
from tally.groups import Aggregate, order, summarise
from tally.reader import DataError, read
from tally.writer import FORMATS, render

KINDS = ("sum", "mean", "min", "max", "count")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    options = parser().parse_args(arguments)
    try:
        filters = [parse_filter(text) for text in options.where]
    except ValueError as error:
        print(f"tally: {error}", file=sys.stderr)
        return 2
    try:
        with _open(options.file) as file:
            rows = [row for row in read(file, options.delimiter) if all(test.keeps(row) for test in filters)]
        results = summarise(rows, options.by, _aggregates(options))
        results = order(results, options.sort, options.descending, options.limit)
    except (DataError, OSError) as error:
        print(f"tally: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(render(results, options.format))
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(prog="tally", description="Counts, sums and averages of a CSV file.")
    made.add_argument("file", help="a CSV file, or - for standard input")
    made.add_argument("--by", nargs="+", default=[], metavar="COLUMN")
    for kind in KINDS:
        made.add_argument(f"--{kind}", nargs="+", default=[], metavar="COLUMN")
    made.add_argument("--where", action="append", default=[], metavar="CONDITION")
    made.add_argument("--sort", metavar="COLUMN")
    made.add_argument("--descending", action="store_true")
    made.add_argument("--limit", type=_count, metavar="N")
    made.add_argument("--delimiter")
    made.add_argument("--format", choices=list(FORMATS), default="table")
    return made


def _aggregates(options: argparse.Namespace) -> list[Aggregate]:
    return [Aggregate(kind, column) for kind in KINDS for column in getattr(options, kind)]


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("a limit cannot be negative")
    return value


def _open(name: str):
    if name == "-":
        return sys.stdin
    return Path(name).open(encoding="utf-8", newline="")
