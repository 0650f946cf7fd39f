"""What a comparison tells its reader: on a page in a real browser, and in Markdown."""

import math
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from agentbench.evaluate.compare import Side, compare
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.parting import part
from agentbench.report.chapters import write_markdown, write_page
from agentbench.report.compare import chapters, pairs_table, record, sentence, tokens_per_success
from agentbench.report.tables import as_cell
from tests.evaluate.simulated import Outcome, in_memory, write_run

HOSTILE = "</script><img src=x onerror=alert(1)>[bold]\x1b[2J|`\u202e" + "w" * 100_000


def sides(folder: Path) -> list[Side]:
    before: list[list[Outcome]] = [[task < 30] for task in range(60)]
    after: list[list[Outcome]] = [[task < 50] for task in range(60)]
    actions = {(40, 0): [HOSTILE, "up"], (41, 0): ["up"]}
    runs = [
        write_run(folder, before, policy="<b>before</b>"),
        write_run(folder, after, policy="after", actions=actions),
    ]
    return [Side(run.name, (run,)) for run in map(Evidence.load, runs)]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A comparison of two runs, as `page.html` and `page.md`."""
    both = sides(tmp_path)
    comparison = compare(both)
    costs = {side.name: tokens_per_success(side) for side in both}
    told = list(chapters(comparison, part(both[0].runs[0], both[1].runs[0]), costs))
    write_page(tmp_path / "page.html", "Before and after", "Two runs.", told)
    write_markdown(tmp_path / "page.md", "Before and after", "Two runs.", told)
    return tmp_path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_silent_sorts_and_is_readable(browser: Browser, axe: str, written: Path, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": 420, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((written / "page.html").as_uri())
    assert page.locator(".tile dd").first.inner_text() == "better"
    flips = page.locator("#flips table")
    flips.locator("th button", has_text="task").click()
    first = flips.locator("tbody tr").first.inner_text()
    flips.locator("th button", has_text="task").click()
    assert flips.locator("tbody tr").first.inner_text() != first
    page.locator("#where-they-part summary").first.click()
    assert "both saw:" in page.locator("#where-they-part details[open] pre").inner_text()
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert said == [] and all(url.startswith(("file:", "data:")) for url in asked)
    context.close()
    # The page's own policy allows no further script; the checker is the only one that may pass it by.
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto((written / "page.html").as_uri())
    page.add_script_tag(content=axe)
    found = page.evaluate("axe.run(document)")
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]] == []
    context.close()


def test_markdown_holds_the_same_and_its_figures(written: Path) -> None:
    text = (written / "page.md").read_text()
    shown = [line for line in text.splitlines() if not line.startswith("    ")]  # what is indented is shown as it is
    assert not any("<" in line for line in shown) and any("&lt;b>before" in line for line in shown)
    assert "20 won" in text and "| 61 |" not in text
    for name in ("turns", "changes", "parting"):
        assert f"(page-figures/{name}.svg)" in text and (written / "page-figures" / f"{name}.svg").exists()
    assert "onerror" in text and "\x1b" not in text and "\u202e" not in text
    assert max(map(len, text.splitlines())) < 10_000


def test_the_record_is_what_programs_read(tmp_path: Path) -> None:
    comparison = compare(sides(tmp_path))
    found = record(comparison, "after")
    assert found["verdict"] == "better" and found["delta"] == pytest.approx(1 / 3)
    assert found["a"] == "<b>before</b>" and found["unit"] == "task" and found["n"] == 60
    assert "is better than" in sentence(comparison, comparison.pairs[0])


def test_what_is_unbounded_is_null_in_the_record() -> None:
    single = compare([Side(name, (in_memory([[True]], policy=name),)) for name in "ab"])
    found = record(single, "b")
    assert (found["low"], found["high"], found["mde"], found["verdict"]) == (None, None, None, "no difference")


def test_what_a_success_costs_has_an_interval_and_its_coverage(written: Path) -> None:
    side = sides(written)[0]
    cost = tokens_per_success(side)
    assert cost is not None
    # Every turn samples 3 tokens: 58 episodes take two turns, HOSTILE's two, the one that says "up" one.
    assert cost.estimate.mean == pytest.approx(3 * 120 / 30)
    assert cost.estimate.low < 12 < cost.estimate.high and cost.estimate.n == 60
    assert cost.coverage is not None and cost.coverage > 0.85
    text = (written / "page.md").read_text()
    assert "12.0 \\[" in text and "tokens per success" in text and "simulated coverage" in text
    nothing = Side("nothing", (in_memory([[False]] * 3),))
    assert tokens_per_success(nothing) is None


def test_a_comparison_that_can_find_nothing_says_so() -> None:
    few = compare([Side(name, (in_memory([[True]] * 5, policy=name),)) for name in "ab"])
    assert record(few, "b")["mde"] is None
    assert "none" in [as_cell(value).text for value in pairs_table(few).rows[0]]
    six = [Side(name, (in_memory([[True]] * 6, policy=name),)) for name in "abc"]
    assert compare(six[:2]).pairs[0].mde < compare(six).pairs[0].mde == math.inf, "three pairs share the level"
    many = [Side(name, (in_memory([[t < 25] for t in range(50)], policy=name),)) for name in "abc"]
    alone, all_three = compare(many[:2]).pairs[0], compare(many).pairs[0]
    assert 0 < alone.mde < all_three.mde == pytest.approx(compare(many[:2], alpha=0.05 / 3).pairs[0].mde)


def test_intervals_are_at_the_level_that_was_asked_for() -> None:
    runs = {name: in_memory([[t % k == 0] for t in range(60)], policy=name) for name, k in (("a", 2), ("b", 3))}
    a, b = (Side(name, (run,)) for name, run in runs.items())
    usual, strict = (compare([a, b], alpha=alpha) for alpha in (0.05, 0.001))
    assert strict.pairs[0].low < usual.pairs[0].low and strict.pairs[0].mde > usual.pairs[0].mde
    assert [pairs_table(one).columns[2] for one in (usual, strict)] == ["change [95 %]", "change [99.9 %]"]


def test_three_sides_get_a_ranking_and_no_partings() -> None:
    runs = {"a": 10, "b": 50, "c": 49}
    three = [Side(n, (in_memory([[t < k] for t in range(60)], policy=n),)) for n, k in runs.items()]
    told = {chapter.title: chapter.blocks for chapter in chapters(compare(three), None, {})}
    assert list(told) == ["Answer", "Ranking", "Runs", "Flips", "How to read this"]
