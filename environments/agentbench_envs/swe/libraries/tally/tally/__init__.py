"""Counts, sums and averages of a CSV file."""

from tally.cli import main
from tally.filters import Filter, parse_filter
from tally.groups import Aggregate, summarise
from tally.reader import DataError, read
from tally.writer import FORMATS, render

__all__ = ["FORMATS", "Aggregate", "DataError", "Filter", "main", "parse_filter", "read", "render", "summarise"]
