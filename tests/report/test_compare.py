"""What a comparison tells its reader: on a page in a real browser, and in Markdown."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from agentbench.evaluate.compare import Side, compare
from agentbench.evaluate.evidence import Evidence
from agentbench.evaluate.parting import part
from agentbench.report.chapters import write_markdown, write_page
from agentbench.report.compare import chapters, record, sentence
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
    told = list(chapters(comparison, part(both[0].runs[0], both[1].runs[0])))
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


def test_three_sides_get_a_ranking_and_no_partings() -> None:
    runs = {"a": 10, "b": 50, "c": 49}
    three = [Side(n, (in_memory([[t < k] for t in range(60)], policy=n),)) for n, k in runs.items()]
    told = {chapter.title: chapter.blocks for chapter in chapters(compare(three), None)}
    assert list(told) == ["Answer", "Ranking", "Runs", "Flips", "How to read this"]
