"""The synthetic catalogue: fixed, calibrated, and fair."""

import itertools
from collections import Counter
from statistics import mean, median

import pytest
from agentbench_envs.webshop.generate import Made, generate, nouns
from agentbench_envs.webshop.products import Goal
from agentbench_envs.webshop.reward import score
from agentbench_envs.webshop.shop import catalogue_hash, synthetic
from agentbench_envs.webshop.splits import SPLITS, content_of, split_of

HASHES = {
    200: "88dc95aa23820d30ac761ad742f5e2932b0b16d46578a93430cda31d30a383a1",
    1000: "1363a094124e3d0a45ab661b417fac6bd40e965d402d1dc7bf14d27bb0d9672c",
}


def named(goal: Goal) -> dict[str, str]:
    options = goal["goal_options"]
    assert isinstance(options, dict)
    return options


@pytest.fixture(scope="module", name="made")
def _made() -> list[Made]:
    return list(generate(1000))


@pytest.mark.parametrize("count", HASHES)
def test_the_catalogue_is_the_published_one(count: int) -> None:
    assert catalogue_hash(synthetic(count)) == HASHES[count], "raise VERSION in generate.py and the entry's version"


def test_a_smaller_shop_is_the_beginning_of_a_larger_one() -> None:
    assert list(generate(40, 3)) == list(generate(90, 3))[:40]
    assert next(generate(1, 3)) != next(generate(1, 4))


def test_shares_and_sizes_are_those_of_the_genuine_thousand(made: list[Made]) -> None:
    products = [each.product for each in made]
    assert len({product["asin"] for product in products}) == 1000
    shares = Counter(product["category"] for product in products)
    expected = {"beauty": 238, "electronics": 229, "garden": 216, "fashion": 200, "grocery": 117}
    assert all(abs(shares[name] - count) < 60 for name, count in expected.items())
    counts = Counter(len(product["options"]) for product in products)
    assert all(abs(counts[n] / 1000 - share) < 0.06 for n, share in enumerate((0.577, 0.245, 0.165, 0.013)))
    values = [len(values) for product in products for values in product["options"].values()]
    assert 4.5 < mean(values) < 7 and max(values) <= 45
    assert 14 < mean(len(product["Title"].split()) for product in products) < 22
    assert 400 < mean(len(product["Description"]) for product in products) < 620
    assert 4 < mean(len(product["BulletPoints"]) for product in products) < 5.5
    assert 2.3 < mean(len(product["Attributes"]) for product in products) < 3.3
    assert 0.06 < mean(len(product["pricing"]) > 1 for product in products) < 0.13
    assert 22 < median(each.price for each in made) < 37
    assert len({product["query"] for product in products}) > 180


def test_an_attribute_is_told_somewhere_and_in_the_title_half_of_the_time(made: list[Made]) -> None:
    named = []
    for each in made:
        product = each.product
        texts = [product["Title"], product["Description"], *product["BulletPoints"]]
        for attribute in product["Attributes"]:
            assert any(attribute in text.lower() for text in texts), (product["asin"], attribute)
            named.append(attribute in product["Title"].lower())
    assert 0.4 < mean(named) < 0.6


def test_every_goal_can_be_met_in_full(made: list[Made]) -> None:
    for each in made:
        assert each.goals
        for goal in each.goals:
            tagged = nouns(goal["name"])
            assert tagged
            options = named(goal)
            found = score(each.product, goal, each.price, options, purchased_nouns=tagged, goal_nouns=tagged)
            assert found[0] == found[1]["r_type"] == 1.0


def test_products_have_near_duplicates_that_are_worth_less(made: list[Made]) -> None:
    near = 0
    for one, other in itertools.pairwise(made):
        goal = one.goals[0]
        if other.product["query"] == goal["query"]:
            tagged = [nouns(each.product["Title"]) for each in (other, one)]
            worth, _ = score(other.product, goal, other.price, {}, purchased_nouns=tagged[0], goal_nouns=tagged[1])
            near += worth < 1
    assert near > 200


def test_instructions_name_what_is_wanted_in_many_ways(made: list[Made]) -> None:
    goals = [goal for each in made for goal in each.goals]
    for goal in goals:
        text = goal["instruction_text"]
        assert all(attribute in text for attribute in goal["attributes"])
        assert all(value in text for value in named(goal).values())
    openings = {" ".join(goal["instruction_text"].split()[:3]) for goal in goals}
    assert len(openings) > 12


def test_splits_share_no_wish() -> None:
    goals = [goal for seed in (0, 1) for each in generate(1500, seed) for goal in each.goals]
    wishes: dict[str, set[str]] = {}
    for goal in goals:
        wishes.setdefault(goal["family"], set()).add(split_of(goal))
    assert all(len(splits) == 1 for splits in wishes.values())
    shares = Counter(split_of(goal) for goal in goals)
    assert set(shares) == set(SPLITS)
    assert 0.7 < shares["train"] / len(goals) < 0.9


def test_goals_of_one_shop_are_all_different() -> None:
    contents = [content_of(goal) for each in generate(500) for goal in each.goals]
    assert len(set(contents)) > 0.999 * len(contents)
