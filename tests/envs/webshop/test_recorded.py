"""Everything that was recorded from the original comes out again."""

from pathlib import Path

import pytest
from agentbench_envs.webshop import reward
from agentbench_envs.webshop.catalogue import load
from agentbench_envs.webshop.goals import Kind
from agentbench_envs.webshop.session import Session

from tests.envs.webshop.recorded import catalogue, read, sessions


def test_products_are_read_as_the_original_reads_them(golden: Path, shop_files: Path) -> None:
    expected = read(golden, "webshop_catalogue200.json.gz")["loaded"]
    products = catalogue(shop_files).products
    assert list(products) == list(expected)
    assert {asin: {**expected[asin], "asin": asin} for asin in expected} == products


@pytest.mark.parametrize(("kind", "prices"), [("synthetic", "product_prices"), ("human", "product_prices_human_run")])
def test_goals_and_prices_are_the_recorded_ones_in_order(
    golden: Path, shop_files: Path, kind: Kind, prices: str
) -> None:
    expected = read(golden, "webshop_catalogue200.json.gz")
    loaded = catalogue(shop_files, kind)
    assert loaded.goals == expected[kind]["goals"]
    assert loaded.prices == expected[prices]


def test_recorded_sessions_replay_exactly(golden: Path, shop_files: Path) -> None:
    steps = 0
    goals = read(golden, "webshop_catalogue200.json.gz")
    for recorded in sessions(golden):
        kind: Kind = "human" if recorded["human_goals"] else "synthetic"
        goal = goals[kind]["goals"][recorded["goal_index"]]
        session = Session(catalogue(shop_files, kind), goal, mode=recorded["observation_mode"])
        assert session.reset() == recorded["reset"]["obs"]
        assert session.available == recorded["reset"]["available"]
        for step in recorded["steps"]:
            outcome = session.act(step["action"])
            assert outcome == (step["obs"], step["reward"], step["done"])
            assert session.url == step["url"]
            assert session.available == step["available"]
            steps += 1
        bought = recorded.get("purchase")
        assert (session.purchase is None) == (bought is None)
        if session.purchase is not None and bought is not None:
            assert session.purchase.reward == bought["reward"]
            assert session.purchase.details == bought["info"]
            assert session.purchase.options == bought["options"]
            assert list(session.catalogue.nouns(session.purchase.product["Title"])) == bought["purchased_nouns"]
    assert steps > 300


def test_a_goal_of_people_names_its_session_beside_synthetic_goals(golden: Path, shop_files: Path) -> None:
    goals = read(golden, "webshop_catalogue200.json.gz")["human"]["goals"]
    shop = load(shop_files)
    assert [Session(shop, goal).session_id for goal in goals] == [str(number) for number in range(len(goals))]
    assert Session(shop, {**goals[0], "asin": "none"}).session_id == "goal"


def test_recorded_rewards_come_out_again(golden: Path) -> None:
    cases = read(golden, "webshop_reward.json.gz")["cases"]
    assert len(cases) > 200
    for case in cases:
        given = (case["product"], case["goal"], case["price"], case["options"])
        nouns = {name: case[name] for name in ("purchased_nouns", "goal_nouns")}
        assert reward.score(*given, **nouns) == (case["reward"], case["info"])


def test_recorded_ratios_and_colors_come_out_again(golden: Path) -> None:
    recorded = read(golden, "webshop_reward.json.gz")
    assert recorded["token_set_ratio_0_22"] and recorded["normalize_color"]
    for one, other, ratio in recorded["token_set_ratio_0_22"]:
        assert reward.token_set_ratio(one, other) == ratio
    for color, plain in recorded["normalize_color"]:
        assert reward.plain_color(color) == plain


def test_recorded_rankings_come_out_again_with_their_scores(golden: Path, shop_files: Path) -> None:
    queries = read(golden, "webshop_search.json.gz")["queries"]
    index = catalogue(shop_files).index
    assert len(queries) > 50
    for recorded in queries:
        assert index.search(recorded["query"]) == [tuple(hit) for hit in recorded["hits"]], recorded["query"]
