"""The report in a real browser: silent console, no network, a player that plays, tables that sort, readable colours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from agentbench.report.report import write_report
from tests.report.written import HOSTILE, turn_of, write_evaluation, write_training


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of an evaluation, with hostile episodes, and two training runs."""
    folder = tmp_path_factory.mktemp("report")
    turns = [
        turn_of(f"say {word}", f"<think>it is {word}</think>{word}", reward=0.5) for word in ("red", "blue", "one")
    ]
    hostile = [([turn_of(text, text, traced=False)], False) for text in HOSTILE]
    episodes = [(turns, True), (turns[:1], False), ([], None), *hostile]
    runs = [write_evaluation(folder, episodes), write_training(folder, 0), write_training(folder, 1)]
    return write_report(runs, folder / "page.html").page


class Visit:
    """A page that was opened, and what it did meanwhile."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(file.as_uri())


@pytest.fixture
def visit(browser: Browser, report: Path) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visit = Visit(context.new_page(), report)
    yield visit
    assert visit.said == [], "nothing was said on the console, whatever was clicked"
    assert [url for url in visit.asked if not url.startswith(("file:", "data:"))] == [], "and nothing was asked for"
    context.close()


def open_episode(page: Page, words: str) -> None:
    value = page.locator("#player-episode option", has_text=words).first.get_attribute("value")
    page.locator("#player-episode").select_option(value)


def test_the_player_steps_through_an_episode(visit: Visit) -> None:
    page = visit.page
    open_episode(page, "solved · 3 turns")
    seen = []
    while page.locator("#player-next").is_enabled():
        seen.append((page.locator("#player-where").inner_text(), page.locator("#player-observation").inner_text()))
        page.locator("#player-next").click()
    assert seen == [("turn 1 of 3", "say red"), ("turn 2 of 3", "say blue"), ("turn 3 of 3", "say one")]
    assert page.locator("#player-observation").inner_text() == "the end"
    page.locator("#player-back").click()
    assert page.locator("#player-where").inner_text() == "turn 3 of 3"
    assert "it is one" in page.locator("#player-reply .thought").inner_text()
    page.locator("#player-first").focus()
    page.locator("#player-first").click()
    page.locator("#player-strip button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#player-where").inner_text() == "turn 2 of 3"


def test_the_player_plays_by_itself(visit: Visit) -> None:
    page = visit.page
    open_episode(page, "solved · 3 turns")
    page.locator("#player-play").click()
    expect(page.locator("#player-where")).to_have_text("the end, after 3 turns", timeout=30_000)
    assert page.locator("#player-play").get_attribute("aria-pressed") == "false"


def test_the_player_shows_rewards_values_and_advantages(visit: Visit) -> None:
    page = visit.page
    open_episode(page, "2 turns · reward 1 · after 3 updates")
    shown = dict(zip(page.locator("#player-numbers dt").all_inner_texts(),
                     page.locator("#player-numbers dd").all_inner_texts(), strict=True))  # fmt: skip
    assert (shown["reward"], shown["value"], shown["advantage"], shown["entropy, nats"]) == ("1", "0.5", "−0.05", "1")
    assert shown["terms"] == "right 1"


def test_hostile_episodes_are_only_shown(visit: Visit) -> None:
    page = visit.page
    headings = page.locator("h1").count()
    for option in page.locator("#player-episode option").all():
        page.locator("#player-episode").select_option(option.get_attribute("value"))
    assert page.evaluate("window.owned") is None
    assert page.locator("h1").count() == headings == 1
    assert page.locator("#player img, #player script[src]").count() == 0


def test_tables_sort_by_number_and_by_word(visit: Visit) -> None:
    table = visit.page.get_by_role("table", name="Tasks of")
    heads = table.locator("thead button").all_inner_texts()

    def column(name: str) -> list[str]:
        index = next(i for i, head in enumerate(heads) if head.startswith(name)) + 1
        return table.locator(f"tbody td:nth-child({index})").all_inner_texts()

    def sort(name: str) -> None:
        table.locator("thead button", has_text=name).first.click()

    sort("reward")
    values = [float(cell.replace("−", "-")) for cell in column("reward") if cell != "–"]
    assert values == sorted(values, reverse=True) and len(set(values)) > 1
    assert column("reward")[-1] == "–", "what is absent stays last"
    sort("reward")
    values = [float(cell.replace("−", "-")) for cell in column("reward") if cell != "–"]
    assert values == sorted(values)
    assert column("reward")[-1] == "–"
    assert table.locator("th[aria-sort=ascending]").count() == 1
    table.locator("thead button", has_text="ends").press("Enter")
    assert column("ends") == sorted(column("ends")) and len(set(column("ends"))) > 1, "with the keyboard as well"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_everything_can_be_read(browser: Browser, report: Path, axe: str, scheme: Any, width: int) -> None:
    # The page's own policy allows no further script; the checker is the only one that may pass it by.
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True)
    page = context.new_page()
    page.goto(report.as_uri())
    open_episode(page, "2 turns · reward 1 · after 3 updates")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.add_script_tag(content=axe)
    found = page.evaluate("axe.run(document)")
    checked = {rule["id"] for rule in found["passes"]}
    assert {"color-contrast", "document-title", "html-has-lang", "button-name", "select-name"} <= checked
    assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    context.close()


def test_the_button_switches_between_light_and_dark(browser: Browser, report: Path) -> None:
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    page.goto(report.as_uri())
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    line = "getComputedStyle(document.querySelector('figure svg text')).fill"
    ink = page.evaluate(line)
    page.locator("#theme").click()
    assert page.evaluate(paper) != light
    assert page.evaluate(line) != ink, "figures follow"
    page.locator("#theme").click()
    assert page.evaluate(paper) == light
    context.close()
