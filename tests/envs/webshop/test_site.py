"""The site without a browser: who is answered, what a visit is, and that nothing else can be reached."""

import html
import threading
from collections.abc import Iterator

import httpx
import pytest
from agentbench_envs.webshop.env import WebShopEnv
from agentbench_envs.webshop.session import Session
from agentbench_envs.webshop.site import PAGES_KEPT, Reception, Site, Visit

from agentbench.core.errors import UsageError
from agentbench.core.registry import resolve


@pytest.fixture(scope="module")
def env() -> WebShopEnv:
    env = resolve("webshop").make()
    assert isinstance(env, WebShopEnv)
    return env


@pytest.fixture(scope="module")
def site(env: WebShopEnv) -> Iterator[Site]:
    site = Site()
    yield site
    site.stop()
    assert site.broken
    with pytest.raises(httpx.ConnectError):
        httpx.get(site.address)


@pytest.fixture(name="visit")
def _visit(site: Site, env: WebShopEnv) -> Visit:
    return site.open(Session(env.shop.catalogue, 0))


def kind(visit: Visit) -> str:
    return visit.session.page.kind


def client(site: Site) -> httpx.Client:
    return httpx.Client(base_url=site.address, timeout=60, follow_redirects=True, trust_env=False)


def test_other_hosts_and_foreign_origins_are_refused(site: Site, visit: Visit) -> None:
    with client(site) as http:
        page = f"{visit.path}0"
        assert http.get(page).status_code == 200
        assert http.get(page, headers={"Host": "shop.example"}).status_code == 403
        assert http.get(page, headers={"Host": site.address.removeprefix("http://").split(":")[0]}).status_code == 403
        for origin in ("http://evil.example", "null", "http://localhost:1"):
            assert http.post(page, data={"search": "lamp"}, headers={"Origin": origin}).status_code == 403
        assert kind(visit) == "index"
        assert http.post(page, data={"search": "lamp"}, headers={"Origin": site.address}).status_code == 200
        assert kind(visit) == "search_results"


def test_a_page_needs_nothing_but_itself(site: Site, visit: Visit) -> None:
    with client(site) as http:
        answer = http.post(f"{visit.path}0", data={"search": "lamp"})
    said = answer.headers["content-security-policy"]
    assert said.startswith("default-src 'none'; style-src 'sha256-")
    assert "<script" not in answer.text and "http://" not in answer.text and "https://" not in answer.text


def test_an_earlier_page_goes_back_to_its_state(site: Site, visit: Visit) -> None:
    with client(site) as http:
        http.post(f"{visit.path}0", data={"search": "lamp"})
        asin = visit.session.found[0]
        http.post(f"{visit.path}1", data={"click": asin.lower()})
        assert kind(visit) == "item_page" and visit.number == 2
        http.get(f"{visit.path}0")
        assert kind(visit) == "index"
        http.post(f"{visit.path}1", data={"click": "next >"})
        assert "/lamp/2" in visit.session.url and visit.number == 3
        http.post(f"{visit.path}2", data={"click": "buy now"})
        assert visit.session.purchase is not None
        for number in range(5):
            assert "Thank you" in http.get(f"{visit.path}{number}").text
        http.post(f"{visit.path}0", data={"search": "lamp"})
        assert kind(visit) == "done", "what is bought stays bought"


def test_a_visit_keeps_so_many_pages_and_no_more(site: Site, visit: Visit) -> None:
    for number in range(3 * PAGES_KEPT):
        visit.act(f"search[lamp {number}]")
    assert len(visit._shown) == PAGES_KEPT
    with client(site) as http:
        assert str(http.get(f"{visit.path}0").url).endswith(f"{visit.path}{visit.number}")


def test_what_was_searched_for_is_shown_as_text(site: Site, visit: Visit) -> None:
    with client(site) as http:
        page = http.post(f"{visit.path}0", data={"search": "<img src=x onerror=alert(1)> lamp\" autofocus='"}).text
    assert "<img" not in page and 'autofocus=&#x27;"' in page


def test_a_shop_by_itself_gives_wishes_and_takes_short_forms(env: WebShopEnv) -> None:
    site = Site(reception=Reception(env))
    try:
        with client(site) as http:
            assert "wishes" in http.get("/").text
            one, two = http.post("/", data={"goal": ""}), http.post("/", data={"goal": ""})
            again = http.post("/", data={"goal": "0"})
            assert one.url != two.url
            wish = html.escape(env.reset(seed=0)[1]["goal"])
            assert wish in one.text and wish in again.text and wish not in two.text
            assert http.post(str(one.url), data={"search": "x" * 30_000}).status_code == 413
            with pytest.raises(UsageError, match="cannot listen on port"):
                Site(int(site.address.rpartition(":")[2]))
    finally:
        site.stop()


def test_a_guest_sees_what_came_of_a_click(site: Site, visit: Visit) -> None:
    guest = site.invite()
    guest.enter(visit)
    answers: list[str] = []

    def click() -> None:
        with client(site) as http:
            answers.append(http.post(f"/with/{guest.key}/1", data={"search": "lamp"}).text)

    person = threading.Thread(target=click)
    person.start()
    while not guest.asked:
        person.join(0.01)
    assert guest.asked.popleft() == "search[lamp]"
    visit.act("search[lamp]")
    guest.answer()
    person.join()
    assert "Results for “lamp”" in answers[0]
    guest.enter(site.open(visit.session))
    with client(site) as http:
        assert "its turns were used up" in http.post(f"/with/{guest.key}/1", data={"search": "x"}).text
    assert not guest.asked
