"""The page about coverage shows the measured numbers, and the benchmark that measures them runs."""

import json
from pathlib import Path

from tests.benchmarks.coverage import page_with, simulate, tables

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_page_are_those_of_the_result() -> None:
    result = json.loads((ROOT / "tests" / "benchmarks" / "results" / "coverage.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "notes" / "what-the-intervals-cover.md").read_text(encoding="utf-8")
    shown = tables(result)
    assert all(f"<!-- {name}: generated" in page for name in shown)
    assert page_with(page, shown) == page, "run tests.benchmarks.coverage with --json and --page"


def test_the_simulation_gives_the_same_numbers_again() -> None:
    first = simulate(4)
    assert first == simulate(4)
    assert {row["rate"] for row in first["grid"]} == {0.02, 0.1, 0.5, 0.9, 0.98}
    assert all(0 <= number <= 1 for number in first["summary"].values())
