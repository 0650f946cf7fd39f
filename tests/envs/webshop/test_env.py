"""What the environment adds to the shop: tasks, protocols, terms, an oracle."""

import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.webshop.env import WebShopEnv
from agentbench_envs.webshop.products import Goal

from agentbench.core.env import Env, Step
from agentbench.core.errors import UsageError
from agentbench.core.registry import environments, resolve

VARIANTS = ["synth-1k", "tiny", "original", "ragen", "verl-agent", "agentgym"]


def play(env: Env, actions: list[str]) -> list[Step]:
    return [env.step(action) for action in actions]


def _values(goal: Goal) -> list[str]:
    options = goal["goal_options"]
    return [*(options.values() if isinstance(options, dict) else options)]


@pytest.fixture(name="env")
def _env() -> WebShopEnv:
    env = resolve("webshop").make()
    assert isinstance(env, WebShopEnv)
    return env


def test_the_terms_follow_the_product_at_hand_and_add_up_to_the_purchase(env: WebShopEnv) -> None:
    for seed in range(30):
        env.reset(seed=seed)
        steps = play(
            env, ["search[lamp]", f"click[{env.session.found[0].lower()}]" if env.session.found else "click[x]"]
        )
        steps += play(env, env.oracle())
        totals = {name: sum(step.info["terms"][name] for step in steps) for name in steps[-1].info["terms"]}
        assert totals == pytest.approx(
            {"type": 1, "attributes": 1, "options": 1, "price": 1, "score": 1, "won": 1, "illegal": totals["illegal"]}
        )
        assert steps[-1].reward == 1.0 and steps[-1].terminated and steps[-1].info["success"]


def test_the_potential_is_what_buying_now_would_pay(env: WebShopEnv) -> None:
    env.reset(seed=0)
    env.step("search[lip scrub]")
    found = env.session.found[:5]
    for asin in found:
        _, info = env.reset(seed=0)
        assert info["potential"] == 0.0
        potential = play(env, ["search[lip scrub]", f"click[{asin.lower()}]"])[-1].info["potential"]
        assert env.step("click[buy now]").reward == potential


def test_an_illegal_action_is_answered_in_words_and_costs_nothing(env: WebShopEnv) -> None:
    env.reset(seed=1)
    step = env.step("buy the lamp " * 20)
    assert step.observation.startswith("Found 'buy the lamp")
    assert "expected search[words]" in step.observation and len(step.observation) < 600
    assert (step.reward, step.info["valid"], step.info["terms"]["illegal"]) == (0.0, False, 1.0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_oracle_wins_from_wherever_it_is_asked(variant: str, scale: float) -> None:
    resolved = resolve(f"webshop/{variant}")
    env = resolved.make()
    for seed in range(round(25 * scale)):
        env.reset(seed=seed)
        assert len(env.oracle()) <= resolved.max_turns
        for _ in range(seed % 7):
            if env.step(env.random_action()).terminated:
                env.reset(seed=seed)
        steps = play(env, env.oracle())
        assert steps[-1].info["success"], seed
        assert all(step.info["valid"] for step in steps)


def test_the_oracle_searches_by_what_the_shopper_was_told(env: WebShopEnv) -> None:
    for seed in range(50):
        env.reset(seed=seed)
        words = env.oracle()[0].removeprefix("search[").removesuffix("]")
        goal = env.session.goal
        told = " ".join([*goal["attributes"], goal["query"], *_values(goal)])
        assert set(words.split()) <= set(told.split())


def bounds() -> dict[str, float]:
    """Return the card's bound on the success of random play, by variant; of shops that fit into memory."""
    card = files("agentbench_envs.webshop").joinpath("README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|.*/1000, [0-9.]+ \| ([0-9.]+) \|$", card, re.MULTILINE)
    return {variant: float(bound) for variant, bound in rows if variant in VARIANTS}


@pytest.mark.parametrize("variant", VARIANTS)
def test_random_play_stays_under_the_cards_bound(variant: str, scale: float) -> None:
    bound, tasks = bounds()[variant], round(60 * scale)
    resolved = resolve(f"webshop/{variant}", split="test")
    env, won = resolved.make(), 0
    for seed in range(tasks):
        env.reset(seed=seed)
        for _ in range(resolved.max_turns):
            step = env.step(env.random_action())
            if step.terminated:
                won += step.info["success"]
                break
    assert won <= bound * tasks + 3 * math.sqrt(bound * (1 - bound) * tasks)


def test_protocols_pay_differently_for_the_same_purchase() -> None:
    paid: dict[str, list[float]] = {}
    for variant in ("original", "ragen", "verl-agent", "agentgym"):
        env = resolve(f"webshop/{variant}").make()
        env.reset(seed=0)
        best = play(env, env.oracle())[-1].reward
        assert isinstance(env, WebShopEnv)
        env.reset(seed=0)
        asin = env.session.goal["asin"]
        play(env, [f"search[{env.session.goal['query']}]"])
        other = next(name for name in env.session.found[:10] if name != asin)
        poor = play(env, [f"click[{other.lower()}]", "click[buy now]"])[-1]
        assert 0 < poor.info["score"] < 1
        paid[variant] = [best, poor.reward / poor.info["score"]]
    assert paid == {"original": [1, 1], "ragen": [1, 0], "verl-agent": [10, 0], "agentgym": [1, 1]}


def test_ragen_allows_a_search_only_where_the_box_is() -> None:
    env = resolve("webshop/ragen").make()
    env.reset(seed=0)
    assert env.step("search[lamp]").info["valid"]
    again = env.step("search[lip balm]")
    assert not again.info["valid"]
    assert "(Total results: " in again.observation
    assert resolve("webshop/original").make().reset(seed=0)[0].startswith("WebShop [SEP] Instruction:")


def test_verl_agent_shows_task_page_and_admissible_actions() -> None:
    env = resolve("webshop/verl-agent").make()
    observation, info = env.reset(seed=0)
    assert observation == (
        f"Your task is to: {info['goal']}.\nYour current observation is: 'Search'.\n"
        "Your admissible actions:\n[\n'search[<your query>]',\n'click[search]',\n]."
    )
    page = env.step("search[lip scrub]").observation
    assert "'Back to Search' [SEP] 'Page 1 (Total results: " in page and "'click[next >]',\n" in page
    assert info["goal"] not in page.partition("\n")[2]


def test_tiny_pages_are_short_and_products_have_numbers() -> None:
    env = resolve("webshop/tiny").make()
    assert isinstance(env, WebShopEnv)
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        assert len(observation) < 200
        steps = play(env, env.oracle())
        assert all(len(step.observation) < 900 for step in steps)
    env.reset(seed=0)
    env.step("search[lip scrub]")
    second = env.session.found[1]
    step = env.step("click[2]")
    assert step.info["valid"] and f"item_page/{env.session.session_id}/{second}" in step.info["anchor"]
    assert not env.step("click[2]").info["valid"]


def test_equal_states_have_equal_anchors(env: WebShopEnv) -> None:
    _, start = env.reset(seed=4)
    first = env.step("search[lip scrub]").info["anchor"]
    play(env, ["click[next >]", "click[< prev]"])
    assert env.step("nonsense").info["anchor"] == first != start["anchor"]
    assert env.step("click[back to search]").info["anchor"] == start["anchor"]


def test_a_megabyte_of_search_stays_out_of_the_info(env: WebShopEnv) -> None:
    env.reset(seed=4)
    one, other = (env.step(f"search[{'lamp ' * 200_000}{end}]").info for end in ("a1", "b2"))
    assert one["valid"] and len(repr(one)) < 5_000
    assert one["anchor"] != other["anchor"]


def test_every_admissible_action_is_legal(env: WebShopEnv) -> None:
    for seed in range(5):
        info = env.reset(seed=seed)[1]
        for _ in range(8):
            for action in info["admissible"]:
                assert env.session.can(action)
            step = env.step(env.random_action())
            info = step.info
            if step.terminated:
                break


def test_goals_are_taken_in_order_and_named_by_content(env: WebShopEnv) -> None:
    count = env.task_count
    assert count is not None
    goals = [env.reset(seed=seed)[1]["goal"] for seed in range(count)]
    assert len(set(goals)) > 0.98 * count
    assert env.reset(seed=count + 3)[1]["goal"] == goals[3]
    assert env.content(3) == env.content(count + 3) != env.content(4)
    other = resolve("webshop:train").make()
    assert {other.content(seed) for seed in range(300)}.isdisjoint(env.content(seed) for seed in range(count))


def test_a_goal_can_be_asked_for_by_number(env: WebShopEnv) -> None:
    goal = env.shop.catalogue.goals[17]["instruction_text"]
    assert env.reset(seed=5, options={"goal": 17})[1]["goal"] == goal
    for wrong in ({"goal": -1}, {"goal": "17"}, {"goal": 10**9}, {"goals": 1}):
        with pytest.raises(UsageError, match=r"found goal|unknown option 'goals'"):
            env.reset(seed=5, options=wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"products": 5}, "found 5 products, expected 10 to"),
        ({"protocol": "paper"}, "found protocol 'paper', expected one of original, ragen"),
        ({"mode": "html"}, "found mode 'html'"),
        ({"data": "/nowhere"}, "expected one items_shuffle"),
        ({"data": "/nowhere", "goals": "both"}, "found goals 'both'"),
    ],
)
def test_wrong_arguments_get_one_clear_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        WebShopEnv(**arguments)


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_genuine_files_are_played_like_any_other_shop(shop_files: Path, kind: str) -> None:
    env = resolve("webshop/original", split="train", data=str(shop_files), goals=kind).make()
    won = []
    for seed in range(20):
        env.reset(seed=seed)
        step = play(env, env.oracle())[-1]
        assert step.terminated
        won.append(step.info["score"])
    assert sum(won) / len(won) > 0.9


def test_a_worker_s_seed_changes_no_goal() -> None:
    first, second = (resolve("webshop:valid").make() for _ in range(2))
    first.reset(seed=123456)
    first.random_action()
    assert [first.reset(seed=seed)[0] for seed in range(5)] == [second.reset(seed=seed)[0] for seed in range(5)]


def test_the_entry_s_rewards_are_the_protocols() -> None:
    entry = environments()["webshop"]
    for variant, setting in entry.variants.items():
        spec = setting.reward or entry.reward
        weights = {term.name: term.weight for term in spec.terms}
        if variant != "synth-100k":
            protocol = resolve(f"webshop/{variant}").make().protocol  # type: ignore[attr-defined]
            assert (weights["score"], weights["won"]) == (protocol.graded, protocol.win)
