"""Whatever is said to the shop, through any of its faces, it raises nothing, reaches no file, and harms nobody else."""

import hashlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

import httpx
import pytest
from agentbench_envs.webshop.browser import WebShopBrowserEnv
from agentbench_envs.webshop.env import WebShopEnv
from agentbench_envs.webshop.session import Session
from agentbench_envs.webshop.site import Site, Visit

from agentbench.core.env import Step
from agentbench.core.registry import resolve
from agentbench.core.seeding import generator
from tests.envs.webshop.attacks import attacks, no_file_is_reached

SHAPES = ("{}", "search[{}]", "click[{}]", "search[lamp {}]", "Search[{}]", "click[{}", "search{}]")
NATIVE = (
    *("type[Search the shop][{}]", "type[e1][{}]", "type[{}][x]", "click[{}]", "click[e2]", "goto[{}]", "goto[/{}]"),
    *("goto[/1{}]", "goto[/1?{}]", "goto[/1#{}]", "scroll[{}]", "scroll[down]", "back", "{}"),
)
PLAIN = 0.1
"""Share of plain random actions in between, so that every page is attacked."""
KINDS = {"index", "search_results", "item_page", "item_sub_page", "done"}


Record = Callable[[str, object], None]
"""Writes a number beside a test's outcome."""


@pytest.fixture(scope="module")
def plain() -> WebShopEnv:
    return cast(WebShopEnv, resolve("webshop").make())


def storm(env: WebShopEnv, actions: Iterator[str]) -> set[str]:
    """Play hostile actions and some plain ones; begin again after a purchase. Return the kinds of pages seen."""
    rng = generator("storm")
    env.reset(seed=0)
    kinds = set()
    for count, action in enumerate(actions):
        for said in (action, env.random_action()) if rng.random() < PLAIN else (action,):
            step = env.step(said)
            assert isinstance(step.observation, str) and len(step.observation) < 20_000, said[:80]
            assert "root:" not in step.observation
            kinds.add(step.info["page"])
            if step.terminated:
                env.reset(seed=count)
    return kinds


def play(env: WebShopEnv, seed: int) -> list[Step]:
    env.reset(seed=seed)
    return [env.step(action) for action in env.oracle()]


def test_the_text_face_bears_everything(plain: WebShopEnv, scale: float, record_property: Record) -> None:
    wanted = max(10_000, round(500 * scale))
    record_property("actions", wanted)
    for number, mode in enumerate(("text", "text_rich")):
        attacked, beside = (cast(WebShopEnv, resolve("webshop", mode=mode).make()) for _ in range(2))
        beside.reset(seed=1)
        page = beside.step("search[lamp]").observation
        with no_file_is_reached():
            assert storm(attacked, attacks(wanted // 2, SHAPES, seed=number)) == KINDS
        assert beside.step("nonsense").observation.endswith(page)
        assert [step.reward for step in play(beside, 1)] == [step.reward for step in play(plain, 1)]


def test_a_catalogue_on_disk_bears_everything(tmp_path: Path, scale: float) -> None:
    env = cast(WebShopEnv, resolve("webshop/synth-10k", products=5_100, cache=str(tmp_path)).make())
    env.reset(seed=0)
    expected = play(env, 3)
    database = next(tmp_path.glob("*/catalogue.sqlite"))
    before = hashlib.sha256(database.read_bytes()).digest()
    with no_file_is_reached():
        storm(env, attacks(round(500 * scale), SHAPES, seed=2))
    assert hashlib.sha256(database.read_bytes()).digest() == before
    assert play(env, 3) == expected


@pytest.fixture(name="site")
def _site() -> Iterator[Site]:
    site = Site()
    yield site
    site.stop()


def request(site: Site, visit: Visit, said: str, number: int) -> httpx.Request:
    """Ask for something in one of seven ways."""
    text = said.encode("utf-8", "replace").decode()
    page = f"{site.address}{visit.path}{visit.number}"
    path = quote(text[:6000], safe="")
    match number % 7:
        case 0:
            return httpx.Request("POST", page, data={"search": text})
        case 1:
            return httpx.Request("POST", page, data={"click": text})
        case 2:
            return httpx.Request("POST", page, content=text.encode())
        case 3:
            return httpx.Request("GET", f"{site.address}/v/{visit.key}/{path}")
        case 4:
            return httpx.Request("GET", f"{site.address}/{path}")
        case 5:
            return httpx.Request("POST", f"{site.address}/v/{path}/0", data={"search": "lamp"})
        case _:
            return httpx.Request("POST", page, data={"click": "buy now"}, headers=_foreign(number, text))


def _foreign(number: int, text: str) -> dict[str, str]:
    """Headers of a request that leads here under another name, or comes from a page elsewhere."""
    word = "".join(letter for letter in text if letter.isascii() and letter.isprintable())[:2000].strip() or "x"
    return {"Host": word} if number % 2 else {"Origin": word}


def test_the_site_bears_everything(site: Site, plain: WebShopEnv, scale: float) -> None:
    visit, beside = (site.open(Session(plain.shop.catalogue, goal)) for goal in (0, 1))
    beside.act("search[lamp]")
    page = f"{site.address}{beside.path}1"
    codes = []
    with httpx.Client(timeout=60, trust_env=False) as http, no_file_is_reached():
        before = http.get(page).text
        for number, said in enumerate(attacks(round(500 * scale), ("{}", "search={}", "click={}"), seed=3)):
            if visit.session.purchase is not None:
                visit = site.open(Session(plain.shop.catalogue, number % 100))
            held = visit.session
            answer = http.send(request(site, visit, said, number), follow_redirects=True)
            assert answer.status_code in (200, 400, 403, 404), (number, said[:80])
            assert "root:" not in answer.text
            if number % 7 == 6:
                assert answer.status_code == 403 and visit.session is held, "a foreign request did something"
            codes.append(answer.status_code)
            if number % 3 == 0:
                visit.act(f"click[{visit.session.available['clickables'][-1]}]")
        assert http.get(page).text == before
        paths = ["/shop.css", "/static/x", "/with/x", "/../../../../etc/passwd", "/v/..%2f..%2fetc%2fpasswd/0"]
        for path in (*paths, f"{visit.path}{'9' * 5000}", f"{visit.path}-1", f"{visit.path}%D9%A1" + "0" * 20):
            assert http.get(f"{site.address}{path}").status_code == 404
        assert http.delete(page).status_code == 405
    assert set(codes) == {200, 400, 403, 404}, "every kind of request came through"


def test_the_site_s_wire_bears_everything(
    site: Site, plain: WebShopEnv, scale: float, caplog: pytest.LogCaptureFixture
) -> None:
    visit = site.open(Session(plain.shop.catalogue, 0))
    address = (urlsplit(site.address).hostname, urlsplit(site.address).port)
    head = f"Host: {address[0]}:{address[1]}\r\n"
    shapes = (
        "{}", "GET {} HTTP/1.1\r\n" + head + "\r\n", "{} / HTTP/1.1\r\n" + head + "\r\n", "GET / HTTP/{}\r\n\r\n",
        f"GET {visit.path}0 HTTP/1.1\r\nHost: {{}}\r\n\r\n", f"GET {visit.path}0 HTTP/1.1\r\n{head}{{}}: {{}}\r\n\r\n",
        f"POST {visit.path}0 HTTP/1.1\r\n{head}Content-Length: {{}}\r\n\r\nsearch=lamp",
        f"POST {visit.path}0 HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n{{}}",
    )  # fmt: skip
    with no_file_is_reached():
        for said in attacks(round(500 * scale), shapes, seed=4):
            with socket.create_connection(address) as wire:
                wire.settimeout(60)
                try:
                    wire.sendall(said.encode("utf-8", "replace"))
                    wire.shutdown(socket.SHUT_WR)
                    answer = wire.recv(65536)
                except OSError:  # What is too long to be a request is not read to its end.
                    continue
                assert answer == b"" or answer.startswith(b"HTTP/1.1 "), said[:80]
                assert not answer.startswith(b"HTTP/1.1 5") and b"root:" not in answer, said[:80]
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []
    assert httpx.get(f"{site.address}{visit.path}0", trust_env=False).status_code in (200, 303)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["browser", "browser-native"])
def test_the_browser_bears_everything(variant: str, scale: float, record_property: Record) -> None:
    attacked, beside = (cast(WebShopBrowserEnv, resolve(f"webshop/{variant}").make()) for _ in range(2))
    beside.reset(seed=1)
    beside.step("search[lamp]" if variant == "browser" else "type[Search the shop][lamp]")
    shown = "document.documentElement.outerHTML"
    before = beside._open_page.evaluate(shown)
    others = [beside._prefix + "0", f"/../{beside._prefix.split('/')[-2]}/0", f"../{beside._prefix.split('/')[-2]}/1"]
    shapes = SHAPES if variant == "browser" else NATIVE
    # A step in a browser takes a tenth of a second or more; a soak's actions are shared by the two kinds of them.
    count = round(250 * scale) if scale > 1 else 100
    record_property("actions", count)
    try:
        attacked.reset(seed=0)
        with no_file_is_reached():
            storm(attacked, attacks(count, shapes, more=others, seed=5))
        assert beside._open_page.evaluate(shown) == before
        assert beside._visit is not None and beside._visit.number == (variant == "browser")
        assert [step.reward for step in play(beside, 1)][-1] == 1.0
    finally:
        attacked.close()
        beside.close()
