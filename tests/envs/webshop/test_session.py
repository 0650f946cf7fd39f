"""What each click does, and what it does not."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.webshop.pages import ResultsPage
from agentbench_envs.webshop.products import Goal, Product
from agentbench_envs.webshop.search import SearchIndex
from agentbench_envs.webshop.session import Session, parse
from agentbench_envs.webshop.stock import Catalogue
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import UsageError
from tests.envs.webshop.recorded import catalogue


def product(asin: str, **fields: Any) -> Product:
    plain: dict[str, Any] = {
        "asin": asin, "Title": f"Lamp {asin}", "Description": "Bright.", "BulletPoints": ["Tall"], "Price": "$5.0",
        "pricing": [5.0], "options": {}, "Attributes": ["tall"], "Rating": "N.A.", "query": "lamps",
        "category": "garden", "product_category": "Home › Lamps",
    }  # fmt: skip
    return plain | fields  # type: ignore[return-value]


def shop(*products: Product) -> Catalogue:
    goal: Goal = {
        "asin": products[0]["asin"], "category": "garden", "query": "lamps", "name": products[0]["Title"],
        "product_category": "Home › Lamps", "instruction_text": "a tall lamp", "attributes": ["tall"],
        "price_upper": 10.0, "goal_options": {}, "weight": 1,
    }  # fmt: skip
    index = SearchIndex([(each["asin"], each["Title"]) for each in products])
    return Catalogue({each["asin"]: each for each in products}, {each["asin"]: 5.0 for each in products}, [goal], index)


def visit(session: Session, *actions: str) -> Session:
    for action in actions:
        session.act(action)
    return session


def kind(session: Session) -> str:
    return session.page.kind


def test_a_visit_from_search_to_purchase() -> None:
    session = Session(shop(product("B001", options={"size": ["small", "large"]}), product("B002")), 0)
    assert kind(session) == "index"
    assert kind(visit(session, "search[lamp]")) == "search_results"
    assert kind(visit(session, "click[B001]")) == "item_page"
    assert visit(session, "click[large]", "click[small]").chosen == {"size": "small"}
    assert kind(visit(session, "click[description]")) == "item_sub_page"
    assert visit(session, "click[< prev]").chosen == {"size": "small"}
    assert session.act("click[buy now]") == (session.observation, 1.0, True)
    assert kind(session) == "done"
    assert session.url == "http://127.0.0.1:3000/done/0/B001/{'size': 'small'}"


def test_searching_works_from_every_page_and_forgets_the_options() -> None:
    session = visit(Session(shop(product("B001", options={"size": ["small"]})), 0), "search[lamp]", "click[b001]")
    visit(session, "click[small]", "search[bright lamp]")
    assert kind(session) == "search_results"
    assert (session.chosen, session.product) == ({}, None)
    assert session.url.endswith("/search_results/0/bright+lamp/1")


def test_going_back_to_the_results_keeps_their_page_and_forgets_the_options() -> None:
    session = Session(shop(*(product(f"B{n:03}", options={"size": ["s"]}) for n in range(25))), 0)
    visit(session, "search[lamp]", "click[next >]", "click[b012]", "click[s]", "click[< prev]")
    assert kind(session) == "search_results"
    page = session.page
    assert isinstance(page, ResultsPage)
    assert (page.number, session.chosen) == (2, {})
    assert page.products[2]["asin"] == "B012"


def test_pages_go_on_behind_the_last_result() -> None:
    session = visit(Session(shop(product("B001")), 0), "search[lamp]", *["click[next >]"] * 3)
    assert session.observation.endswith("Page 4 (Total results: 1) [SEP] < Prev [SEP] Next >")


@pytest.mark.parametrize(
    "action",
    ["", "search", "search[]", "click[]", "click[search]", "click[b009]", "Search[lamp]", " search[lamp]",
     "search lamp", "click[buy now]", "buy now", "search[[lamp", "\nsearch[lamp]", "click[home]"],
)  # fmt: skip
def test_what_cannot_be_played_changes_nothing(action: str) -> None:
    session = Session(shop(product("B001")), 0)
    before = (session.observation, session.url)
    assert not session.can(action)
    assert session.act(action) == (before[0], 0.0, False)
    assert (session.observation, session.url) == before


def test_an_option_that_is_named_like_a_button_is_that_button() -> None:
    session = visit(Session(shop(product("B001", options={"style": ["description", "plain"]})), 0), "search[lamp]")
    visit(session, "click[b001]", "click[description]")
    assert kind(session) == "item_sub_page"
    assert session.chosen == {}


def test_of_two_options_with_one_value_the_last_is_chosen() -> None:
    options = {"fit": ["regular"], "size": ["regular", "tall"]}
    session = visit(Session(shop(product("B001", options=options)), 0), "search[lamp]", "click[b001]", "click[regular]")
    assert session.chosen == {"size": "regular"}


def test_rich_pages_mark_what_was_clicked() -> None:
    options = {"size": ["small", '6"x9"'], "color": ["red"]}
    session = Session(shop(product("B001", options=options), product("B002")), 0, "text_rich")
    visit(session, "search[lamp]", "click[b001]", "click[small]", "click[red]")
    assert session.observation.startswith("You have clicked red.\nYou have clicked small.\nInstruction:\n")
    assert "  [clicked button] small [clicked button_]\n" in session.observation
    visit(session, 'click[6"x9"]')
    # A quotation mark is written as \" in the address, where the original does not recognise it.
    assert '  [button] 6"x9" [button_]\n' in session.observation
    visit(session, "click[< prev]")
    assert "\n[clicked button] B001 [clicked button_]\n" in session.observation
    assert "\n[button] B002 [button_]\n" in session.observation
    visit(session, "click[back to search]", "search[lamp]")
    assert "clicked button" not in session.observation


def test_blank_texts_are_shown_as_html_would_show_them() -> None:
    stock = shop(product("B001", Title="", Description=" ", BulletPoints=["", "\n \n"]))
    session = Session(dataclasses.replace(stock, index=SearchIndex([("B001", "lamp")])), 0)
    visit(session, "search[lamp]")
    assert session.observation.endswith("B001 [SEP] $5.0")
    assert visit(session, "click[b001]", "click[description]").observation.endswith("< Prev [SEP] ")
    assert visit(session, "click[< prev]", "click[features]").observation.endswith("< Prev [SEP] ")


def test_several_blanks_are_one_in_a_rich_page_too() -> None:
    session = Session(shop(product("B001", BulletPoints=["  ", "\t", "a  b", "\u00a0 "])), 0, "text_rich")
    visit(session, "search[lamp]", "click[b001]", "click[features]")
    assert session.observation.endswith("< Prev [button_]\n \n \n a  b\n \u00a0 \n")


def test_words_of_a_search_can_be_mistaken_for_a_page() -> None:
    session = Session(shop(*(product(f"B{n:03}") for n in range(15))), 0)
    visit(session, "search[lamp search_results]", "click[next >]", "click[b010]")
    assert kind(session) == "item_page"
    visit(session, "click[< prev]")
    # The original reads its own address: here it turns a page of the results back instead of returning to it.
    assert kind(session) == "search_results"
    assert isinstance(session.page, ResultsPage) and session.page.number == 1


def test_attributes_are_a_page_of_their_own_on_request() -> None:
    session = Session(shop(product("B001")), 0, show_attributes=True)
    visit(session, "search[lamp]", "click[b001]")
    assert "attributes" in session.available["clickables"]
    assert visit(session, "click[attributes]").observation.endswith("tall [SEP] garden [SEP] lamps [SEP] Home › Lamps")


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="found mode 'html'"):
        Session(shop(product("B001")), 0, "html")  # type: ignore[arg-type]


def test_visits_do_not_disturb_each_other(shop_files: Path) -> None:
    stock = catalogue(shop_files)
    one, other, alone = Session(stock, 3), Session(stock, 7), Session(stock, 3)
    for action in ("search[lip balm]", "click[next >]", "click[< prev]", "click[back to search]", "search[table]"):
        one.act(action)
        other.act("search[shirt]")
        alone.act(action)
        assert one.observation == alone.observation


@given(st.text(alphabet="ab[] \n", max_size=25))
def test_an_action_is_taken_apart_as_the_originals_pattern_does(action: str) -> None:
    match = re.match(r"(.+)\[(.+)\]", action)
    expected = (action, None) if match is None else (match[1], match[2].lower())
    assert parse(action) == expected
