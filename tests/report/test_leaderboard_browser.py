"""The leaderboard's page in a real browser: it is silent, asks for nothing, sorts, and can be read."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

PAGE = Path(__file__).parents[2] / "leaderboards" / "sokoban" / "leaderboard.html"


def models(page: Page) -> list[str]:
    return page.locator("table").first.locator("tbody tr td:nth-child(2)").all_inner_texts()


def test_the_page_is_silent_and_its_table_sorts(browser: Browser) -> None:
    page, said, asked = browser.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(PAGE.as_uri())
    header = page.locator("table").first.get_by_role("button", name="Normalised")
    header.click()
    once = models(page)
    header.click()
    assert {once[0], models(page)[0]} == {"oracle", "nop"}
    assert sorted(once) == sorted(models(page))
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(browser: Browser, axe: str, scheme: Any, width: int) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.goto(PAGE.as_uri())
    page.add_script_tag(content=axe)
    found = page.evaluate("axe.run(document)")
    assert [(violation["id"], violation["help"]) for violation in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    context.close()
