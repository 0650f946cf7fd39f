"""The score of a purchase, worked by hand."""

from typing import Any

import pytest
from agentbench_envs.webshop.reward import has_attribute, plain_color, score, token_set_ratio

PRODUCT: dict[str, Any] = {
    "Title": "Acme Soft Cotton Shirt", "Description": "Hand wash only.", "BulletPoints": ["SLIM FIT - narrow"],
    "Attributes": ["long sleeve"], "query": "shirts", "product_category": "Fashion › Men › Shirts",
}  # fmt: skip
GOAL: dict[str, Any] = {
    "attributes": ["long sleeve", "machine wash"], "goal_options": {"color": "navy blue", "size": "medium"},
    "price_upper": 30.0, "query": "shirts", "product_category": "Fashion › Men › Shirts",
}  # fmt: skip
NOUNS: dict[str, Any] = {"purchased_nouns": ["acme", "cotton", "shirt"], "goal_nouns": ["brand", "cotton", "shirt"]}


def test_the_score_is_the_share_of_parts_that_are_met() -> None:
    reward, details = score(PRODUCT, GOAL, 20.0, {"color": "navy blue"}, **NOUNS)
    # One of two attributes, one of two options, and the price: 3 of 5 parts.
    assert reward == pytest.approx(3 / 5)
    assert details == {
        "r_type": 1.0, "query_match": True, "category_match": True, "title_score": 2 / 3, "r_att": 0.5, "w_att": 2 / 5,
        "r_option": 0.5, "w_option": 2 / 5, "r_price": True, "w_price": 1 / 5,
    }  # fmt: skip


def test_a_price_above_the_ceiling_costs_its_part() -> None:
    assert score(PRODUCT, GOAL, 30.01, {"color": "navy blue"}, **NOUNS)[0] == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("bought", "wanted", "query", "category", "kind"),
    [
        (["shirt"], ["lamp"], "shirts", "Fashion › Men", 0.0),
        (["shirt"], [], "lamps", "Garden › Lamps", 0.5),
        (["shirt"], [], "shirts", "Garden › Lamps", 1.0),
        (["shirt"], ["shirt", *"abcd"], "lamps", "Garden › Lamps", 0.5),
        (["shirt"], ["shirt", *"abc"], "lamps", "Garden › Lamps", 1.0),
        (["shirt"], ["shirt", *"abcdefghij"], "shirts", "Fashion › Men", 0.1),
        (["shirt"], ["shirt", *"abcd"], "lamps", "Fashion › Men", 1.0),
    ],
)
def test_the_type_compares_nouns_query_and_category(
    bought: list[str], wanted: list[str], query: str, category: str, kind: float
) -> None:
    goal = {**GOAL, "query": query, "product_category": category}
    _, details = score(PRODUCT, goal, 20.0, {}, purchased_nouns=bought, goal_nouns=wanted)
    assert details["r_type"] == kind


def test_an_attribute_may_stand_in_any_text() -> None:
    assert all(has_attribute(PRODUCT, attribute) for attribute in ("long sleeve", "cotton", "slim fit", "hand wash"))
    assert not has_attribute(PRODUCT, "machine wash")


def test_human_options_are_values_and_match_in_any_option() -> None:
    goal = {**GOAL, "goal_options": ["navy", "medium"]}
    _, details = score(PRODUCT, goal, 20.0, {"size": "medium", "shade": "navy"}, **NOUNS)
    assert details["r_option"] == 1.0


def test_a_goal_without_options_has_no_option_part() -> None:
    reward, details = score(PRODUCT, {**GOAL, "goal_options": []}, 20.0, {"color": "red"}, **NOUNS)
    assert "r_option" not in details and "w_option" not in details
    assert reward == pytest.approx(2 / 3)


def test_colors_are_reduced_to_the_first_plain_one() -> None:
    assert plain_color("rose gold") == "gold"
    assert plain_color("Navy") == "Navy"
    assert plain_color(("color", "black")) == "black"
    assert plain_color(("color", "off black")) == ("color", "off black")


def test_latin_letters_with_accents_do_not_count() -> None:
    assert token_set_ratio("café au lait", "caf au lait") == 100
    assert token_set_ratio("", "") == 0
