"""The shop in a real browser: the text environment's trajectories, the browser's own actions, pages for everybody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from agentbench_envs.webshop import native
from agentbench_envs.webshop.browser import WebShopBrowserEnv
from agentbench_envs.webshop.env import WebShopEnv
from agentbench_envs.webshop.pages import SECTIONS as NAMES
from agentbench_envs.webshop.pages import DonePage, IndexPage, ItemPage, Page, ResultsPage, SectionPage
from agentbench_envs.webshop.products import Product
from agentbench_envs.webshop.session import Session
from agentbench_envs.webshop.site import Reception, Site
from playwright.sync_api import Browser

from agentbench.core.checks import HOSTILE
from agentbench.core.errors import UsageError
from agentbench.core.registry import resolve
from tests.cli.command import agentbench as command
from tests.cli.command import assert_one_clear_line
from tests.report.conftest import axe, browser

__all__ = ["axe", "browser"]

pytestmark = pytest.mark.slow

TOUR = (
    *("nonsense", "search[table lamp]", "click[next >]", "click[< prev]", "click[buy now]", "search[lamp]"),
    *("click[back to search]", "search[zzzz]", "click[next >]"),
)
SECTIONS = ("click[description]", "click[< prev]", "click[features]", "search[chair]")


@pytest.fixture(scope="module")
def text() -> WebShopEnv:
    return cast(WebShopEnv, resolve("webshop/synth-1k").make())


@pytest.fixture(scope="module")
def web() -> Iterator[WebShopBrowserEnv]:
    env = cast(WebShopBrowserEnv, resolve("webshop/browser").make())
    yield env
    env.close()


def test_the_same_script_gives_the_same_trajectory(text: WebShopEnv, web: WebShopBrowserEnv, scale: float) -> None:
    kinds = set()
    for seed in range(max(50, round(10 * scale))):
        assert web.reset(seed=seed) == text.reset(seed=seed)
        script = text.oracle()
        if seed % 10 == 0:
            script = [*TOUR, *script[:-1], *SECTIONS, *script]
        for action in script:
            step, other = text.step(action), web.step(action)
            assert other == step, action
            kinds.add(step.info["page"])
        assert other.terminated and other.reward == 1.0
    assert kinds == {"index", "search_results", "item_page", "item_sub_page", "done"}


@pytest.mark.parametrize("kwargs", [{"mode": "text_rich"}, {"protocol": "verl-agent"}, {"protocol": "compact"}])
def test_other_modes_and_protocols_are_shown_alike(kwargs: dict[str, str]) -> None:
    text, web = (resolve(f"webshop/{name}", **kwargs).make() for name in ("synth-1k", "browser"))
    assert web.reset(seed=3) == text.reset(seed=3)
    for action in text.oracle():
        assert web.step(action) == text.step(action)
    web.close()


def test_hostile_words_do_the_same_in_both_faces(text: WebShopEnv, web: WebShopBrowserEnv) -> None:
    web.reset(seed=5)
    text.reset(seed=5)
    # Chromium would need minutes to lay out a megabyte of the last one.
    odd = ("lip\rbalm", "../../etc/passwd", "lamp " * 200_000, "\u202e\u200b\U0001f600\u0301" * 250_000)
    said = [f"search[{words}]" for words in (*HOSTILE, *odd)]
    for action in [*said, *(f"click[{words}]" for words in HOSTILE)]:
        step, other = text.step(action), web.step(action)
        assert other[:4] == step[:4], action[:60]
        assert other.info["valid"] == step.info["valid"], action[:60]


def test_the_oracle_wins_by_typing_and_clicking() -> None:
    for variant in ("browser-native", "browser-vision"):
        env = cast(WebShopBrowserEnv, resolve(f"webshop/{variant}").make())
        for seed in range(3):
            env.reset(seed=seed)
            steps = [env.step(action) for action in env.oracle()]
            assert steps[-1].info["success"] and all(step.info["valid"] for step in steps)
            assert ("image" in steps[-1].info) == (variant == "browser-vision")
        env.close()


def test_a_browser_s_own_actions() -> None:
    env = cast(WebShopBrowserEnv, resolve("webshop/browser-native").make())
    observation, info = env.reset(seed=1)
    assert '[e1] textbox "Search the shop"' in observation and info["goal"] in observation
    assert not env.step("back").info["valid"]
    assert "'lamp'" in env.step("type[e1][lamp]").info["anchor"]
    results = env.step("click[SEARCH]")
    assert results.info["page"] == "search_results" and results.observation.startswith("page /1\n")
    assert env.step("scroll[down]").info["anchor"] != results.info["anchor"]
    assert env.step("scroll[up]").info["anchor"] == results.info["anchor"]
    assert env.step("back").info["page"] == "index"
    assert env.step("goto[/1]").info["page"] == "search_results"
    for away in ("http://evil.example/", "file:///etc/passwd", "chrome://version", "http://127.0.0.1:1/v/x/0"):
        step = env.step(f"goto[{away}]")
        assert (step.info["valid"], step.info["blocked"]) == (False, [away])
    for wrong in ("click[nothing like it]", "type[Search][x]", "scroll[left]", "search[lamp]", ""):
        step = env.step(wrong)
        assert not step.info["valid"] and "expected click[...]" in step.observation
    assert set(env._possible()) >= {"type[e1][words]", "click[e2]", "back"}
    env.close()


def test_a_native_action_is_taken_apart() -> None:
    assert native.deed("click[a] ") == ("click", "a", "")
    assert native.deed("type[box][]") == ("type", "box", "")
    assert native.deed("back") == ("back", "", "")
    for shape in ("type[box][{}]", "goto[{}]", "click[{}]"):
        assert native.deed(shape.format("x" * 10_000)) and not native.deed(shape.format("x" * 10_001))
    assert [native.deed(wrong) for wrong in ("", "click", "click[]", "type[x]", "press[Enter]", "a\nback")] == [
        None
    ] * 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actions": "mouse"}, "found actions 'mouse'"),
        ({"view": "html"}, "found view 'html'"),
        ({"width": 1}, "found a window of 1 x 720"),
        ({"mode": "html"}, "found mode 'html'"),
    ],
)
def test_wrong_arguments_get_one_clear_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WebShopBrowserEnv(**arguments)


def pages_of(env: WebShopEnv) -> list[Page]:
    """Pages of every kind: of a product with options, of one with the longest title, and with nothing on them."""
    products = list(env.shop.catalogue.products.values())
    product = next(product for product in products if len(product["options"]) > 1)
    long = max(products, key=lambda product: len(product["Title"]))
    unbroken: Product = {**long, "Title": "Donaudampfschifffahrt" * 10, "options": {"o" * 80: ["v" * 200]}}
    chosen = {name: values[0] for name, values in product["options"].items()}
    return [
        IndexPage("a wish"),
        ResultsPage("a wish", "lamp", 2, 20, [long, *products[:9]], frozenset({products[0]["asin"]})),
        ResultsPage("a wish", "w" * 300, 1, 0, []),
        ItemPage("a wish", product, chosen),
        ItemPage("a wish", unbroken),
        *(SectionPage("a wish", product, section) for section in NAMES),
        DonePage("a wish", product, chosen, 2 / 3),
    ]


def unseen(incomplete: list[dict[str, Any]]) -> list[str]:
    """Return what has the colour of its background, which the checker takes for intended."""
    nodes = [node for each in incomplete if each["id"] == "color-contrast" for node in each["nodes"]]
    return [n["html"][:80] for n in nodes if any(c["data"].get("messageKey") == "equalRatio" for c in n["any"])]


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390), ("light", 320)]
)
def test_everybody_can_use_every_page(browser: Browser, axe: str, text: WebShopEnv, scheme: Any, width: int) -> None:
    site = Site(reception=Reception(text))
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    tab = context.new_page()
    try:
        addresses = [f"{site.address}/", f"{site.address}/nowhere"]
        for page in pages_of(text):
            visit = site.open(Session(text.shop.catalogue, 0))
            visit.session.page = page
            addresses.append(f"{site.address}{visit.path}0")
        for address in addresses:
            tab.goto(address)
            tab.add_script_tag(content=axe)
            found = tab.evaluate("axe.run(document)")
            assert [(each["id"], [n["html"][:80] for n in each["nodes"]]) for each in found["violations"]] == []
            assert unseen(found["incomplete"]) == []
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, f"{tab.title()} sticks out"
    finally:
        context.close()
        site.stop()


def test_without_a_browser_no_episode_begins(tmp_path: Path) -> None:
    done = command(
        "eval", "--model", "nop", "--env", "webshop/browser", cwd=tmp_path, AGENTBENCH_CHROMIUM="/nowhere/chromium"
    )
    assert_one_clear_line(done, 4, "needs browser", "/nowhere/chromium")
    assert list(tmp_path.iterdir()) == []
