"""Every variant of every installed environment keeps the contract, ours and gymnasium's."""

import os
from collections import defaultdict

import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from agentbench.core.checks import check_env, hostile_actions
from agentbench.core.registry import EnvEntry, environments, resolve
from agentbench.rollout.launch import check_needs

SCALE = float(os.environ.get("AGENTBENCH_SCALE", "1"))


def _slow_if_it_needs_something(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.slow) if resolve(name).needs else name


def _played(entry: EnvEntry) -> list[str]:
    """Return the variants to test: of those with the same needs, but a browser, the first two; all in `make soak`."""
    several: dict[frozenset[str], list[str]] = defaultdict(list)
    for variant in entry.variants:
        several[resolve(f"{entry.name}/{variant}").needs].append(variant)
    everything = SCALE > 1
    return [
        name
        for needs, names in several.items()
        for name in names
        if everything or needs <= {"browser"} or name in names[:2]
    ]


PLAYED = [(name, entry, variant) for name, entry in environments().items() for variant in _played(entry)]
VARIANTS = [_slow_if_it_needs_something(f"{name}/{variant}") for name, entry, variant in PLAYED]
# Times in `info` are no part of an observation, and gymnasium compares them.
DETERMINISTIC = [_slow_if_it_needs_something(f"{n}/{v}") for n, entry, v in PLAYED if entry.deterministic]
SPLITS = [
    _slow_if_it_needs_something(f"{name}/{variant}:{split}")
    for name, entry, variant in PLAYED
    for split in entry.variants[variant].splits or entry.splits
]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_keeps_our_contract(name: str, scale: float) -> None:
    resolved = resolve(name)
    check_needs(resolved)
    # A step in a browser takes a tenth of a second or more.
    episodes = max(1, round(scale)) if "browser" in resolved.needs else max(2, round(5 * scale))
    check_env(resolved, episodes=episodes, hostile=0)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_every_variant_keeps_gymnasiums_contract(name: str) -> None:
    resolved = resolve(name)
    check_needs(resolved)
    env = resolved.make()
    gymnasium_check_env(env, skip_render_check=True)
    env.close()


@pytest.mark.parametrize("name", VARIANTS)
def test_no_text_makes_a_variant_raise(name: str, scale: float) -> None:
    resolved = resolve(name)
    check_needs(resolved)
    # Steps in a browser are slow, and `webshop/test_hostile.py` has worse in store for it.
    count = max(50, round((50 if "browser" in resolved.needs else 1000) * scale))
    env = resolved.make()
    env.reset(seed=0)
    answered = 0
    for action in hostile_actions(count):
        step = env.step(action)
        assert isinstance(step.observation, str)
        assert not step.info.get("success"), f"{action[:60]!r} won"
        answered += 1
        if step.terminated or step.truncated:
            env.reset(seed=0)
    env.close()
    assert answered == count


@pytest.mark.parametrize("name", VARIANTS)
def test_observations_do_not_grow_with_what_was_said(name: str) -> None:
    resolved = resolve(name)
    check_needs(resolved)
    env = resolved.make()
    first, _ = env.reset(seed=0)
    step = env.step("x" * 1_000_000)
    assert len(step.observation) < 20_000 + len(first), "a megabyte of action came back in the observation"
    env.close()


@pytest.mark.parametrize("name", SPLITS)
def test_every_split_has_tasks_and_tells_them_from_other_seeds(name: str) -> None:
    resolved = resolve(name)
    check_needs(resolved)
    env = resolved.make()
    seeds = range(min(4, env.task_count or 4))
    assert seeds, "a split without a task"
    # Where the observation is a picture, its words are the same for all.
    starts = {(observation, info.get("goal")) for observation, info in (env.reset(seed=seed) for seed in seeds)}
    env.close()
    assert len(starts) > 1 or len(seeds) == 1, "several seeds, one episode"


@pytest.mark.parametrize("name", VARIANTS)
def test_what_an_entry_says_is_complete(name: str) -> None:
    resolved = resolve(name)
    entry = resolved.entry
    assert entry.title and entry.summary and resolved.instructions.strip() and entry.licence and entry.source
    assert resolved.max_turns >= 1
    assert resolved.reward.terms
    names = [term.name for term in resolved.reward.terms]
    assert len(names) == len(set(names))
