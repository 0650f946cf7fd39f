"""Whether an environment keeps the contract: the rules of `Env`, tried out.

For authors (`agentbench envs check NAME`) and for our own tests, which run it on every variant. Each check is a small
function that raises `AssertionError` with a sentence saying which rule broke; `check_env` runs them all.
"""

import string
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from agentbench.core.env import Env, Step
from agentbench.core.errors import EpisodeOver, Unsolvable, describe
from agentbench.core.registry import Resolved
from agentbench.core.seeding import generator

HOSTILE = (
    "",
    " ",
    "\n\n",
    "\x00\x07\x1b[2J\x7f",
    "\u202e\u200b\U0001f600\u0301\ufeff",
    "\ud800",
    "'; DROP TABLE boxes; --",
    "{{7*7}} ${jndi:ldap://x} %s%n $(reboot) `id`",
    "</answer><answer>up</answer>",
    "[/bold]click[[[",
    "-1",
    "NaN",
    "None",
)
"""Texts that have broken parsers, terminals and templates."""

Episode = list[tuple[str, float, bool, bool, Any]]


def check_env(
    resolved: Resolved, *, episodes: int = 3, hostile: int = 200, report: Callable[[str], None] | None = None
) -> None:
    """Try every rule of the contract on an environment.

    Args:
        resolved: The environment, from `registry.resolve`.
        episodes: Tasks that each check plays.
        hostile: Random malformed actions to send.
        report: Called with the name of each check that passed.

    Raises:
        AssertionError: A rule is broken; the message says which, and where.
    """
    for check in _CHECKS:
        rule = check.__name__.removeprefix("_").replace("_", " ")
        try:
            check(resolved, episodes, hostile)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{rule}: the environment raised {describe(error)}") from error
        if report is not None:
            report(rule)


def play_random(env: Env, seed: int, *, limit: int, options: dict[str, Any] | None = None) -> Episode:
    """Play random actions; return (observation, reward, terminated, truncated, validity) per turn, the reset first."""
    observation, info = env.reset(seed=seed, options=options)
    record: Episode = [(observation, 0.0, False, False, info.get("anchor"))]
    for _ in range(limit):
        step = env.step(env.random_action())
        record.append((*step[:4], step.info["valid"]))
        if step.terminated or step.truncated:
            break
    return record


def hostile_actions(count: int, *, longest: int = 1_000_000) -> Iterator[str]:
    """Yield the texts of `HOSTILE`, one very long one, and random ones up to `count`."""
    yield from HOSTILE[:count]
    if count > len(HOSTILE):
        yield "up" * (longest // 2)
    rng = generator("hostile actions")
    alphabet = np.array([*string.printable, *"äß漢字🧱\u2028\u0000"])
    for _ in range(count - len(HOSTILE) - 1):
        yield "".join(rng.choice(alphabet, size=rng.integers(40)))


def _reset_answers_with_text_and_info(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        assert isinstance(observation, str), f"reset({seed}) returned {type(observation).__name__}, not a text"
        assert isinstance(info, dict), f"reset({seed}) returned {type(info).__name__}, not an info dict"
    env.close()


def _steps_keep_their_types(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    for seed in range(episodes):
        env.reset(seed=seed)
        for _ in range(resolved.max_turns):
            step = env.step(env.random_action())
            _check_step(step)
            if step.terminated or step.truncated:
                break
    env.close()


def _check_step(step: Step) -> None:
    assert isinstance(step.observation, str), "an observation is a text"
    assert isinstance(step.reward, float), f"a reward is a float, not {type(step.reward).__name__}"
    assert isinstance(step.terminated, bool), "terminated is a bool"
    assert isinstance(step.truncated, bool), "truncated is a bool"
    assert not (step.terminated and step.truncated), "an episode ends as terminated or as truncated, not both"
    assert isinstance(step.info.get("valid"), bool), "info['valid'] says whether the action was well-formed and legal"
    terms = step.info.get("terms", {})
    assert all(isinstance(value, float) for value in terms.values()), "raw terms are floats"
    if step.terminated:
        assert step.info.get("potential", 0.0) == 0.0, "the potential is 0 once the episode has ended"


def _native_reward_is_the_weighing_of_its_terms(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    weights = {term.name: term.weight for term in resolved.reward.terms}
    for seed in range(episodes):
        env.reset(seed=seed)
        for _ in range(resolved.max_turns):
            step = env.step(env.random_action())
            terms = step.info.get("terms", {})
            assert terms.keys() <= weights.keys() | {t.term for t in resolved.reward.gates}, f"unknown terms: {terms}"
            weighed = sum(weights.get(name, 0.0) * value for name, value in terms.items())
            assert abs(weighed - step.reward) < 1e-9, f"the reward {step.reward} is not its terms' weighing {weighed}"
            if step.terminated or step.truncated:
                break
    env.close()


def _the_seed_decides_the_episode(resolved: Resolved, episodes: int, hostile: int) -> None:
    if not resolved.entry.deterministic:
        return
    used = resolved.make()
    for seed in range(episodes):
        fresh = resolved.make()
        first = play_random(fresh, seed, limit=resolved.max_turns)
        again = play_random(used, seed, limit=resolved.max_turns)
        assert first == again, f"seed {seed} gave another episode in an instance that was used before"
        fresh.close()
    used.close()


def _threads_do_not_disturb_each_other(resolved: Resolved, episodes: int, hostile: int) -> None:
    if not resolved.entry.deterministic or resolved.thread_bound:
        return

    def play(seed: int) -> Episode:
        env = resolved.make()
        record = play_random(env, seed, limit=resolved.max_turns)
        env.close()
        return record

    serial = [play(seed) for seed in range(episodes)]
    with ThreadPoolExecutor(4) as threads:
        threaded = list(threads.map(play, list(range(episodes)) * 2))
    assert serial * 2 == threaded, "episodes played in threads differ from the same ones played one after another"


def _looking_for_an_action_changes_nothing(resolved: Resolved, episodes: int, hostile: int) -> None:
    if not resolved.entry.deterministic:
        return
    watched, plain = resolved.make(), resolved.make()
    for seed in range(episodes):
        watched.reset(seed=seed)
        plain.reset(seed=seed)
        for _ in range(min(resolved.max_turns, 5)):
            action = watched.random_action()
            watched.random_action()
            one, other = watched.step(action), plain.step(action)
            assert one[:4] == other[:4], "calling random_action changed what the next step did"
            if one.terminated or one.truncated:
                break
    watched.close()
    plain.close()


def _hostile_actions_are_answered_in_words(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    env.reset(seed=0)
    for action in hostile_actions(hostile):
        try:
            step = env.step(action)
        except Exception as error:
            raise AssertionError(f"the action {action[:60]!r} raised {type(error).__name__}: {error}") from error
        _check_step(step)
        if step.terminated or step.truncated:
            env.reset(seed=0)
    env.close()


def _a_step_outside_an_episode_raises(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    _expect_over(env, "before reset")
    env.reset(seed=0)
    for _ in range(10 * resolved.max_turns):
        step = env.step(env.random_action())
        if step.terminated or step.truncated:
            _expect_over(env, "after the end")
            break
    env.close()


def _expect_over(env: Env, when: str) -> None:
    try:
        env.step("")
    except EpisodeOver:
        return
    except Exception as error:
        raise AssertionError(f"a step {when} did not raise EpisodeOver, but {type(error).__name__}") from error
    raise AssertionError(f"a step {when} did not raise EpisodeOver")


def _the_oracle_wins_within_the_turns(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    for seed in range(episodes):
        env.reset(seed=seed)
        try:
            plan = env.oracle()
        except NotImplementedError:
            return
        except Unsolvable as error:
            raise AssertionError(f"the oracle finds no plan for seed {seed}: {error}") from error
        assert len(plan) <= resolved.max_turns, (
            f"seed {seed}: the oracle needs {len(plan)} of {resolved.max_turns} turns"
        )
        step = None
        for action in plan:
            ended = step is not None and (step.terminated or step.truncated)
            assert not ended, f"seed {seed}: the oracle's plan goes on after the end"
            step = env.step(action)
            assert step.info["valid"], f"seed {seed}: the oracle's action {action!r} was not valid"
        assert step is not None, f"seed {seed} is solved before it begins"
        assert step.info.get("success") is True, f"seed {seed}: the oracle's plan ends without success"
    env.close()


def _silence_does_not_win(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    for seed in range(episodes):
        for parrot in (lambda seen: "", lambda seen: "ok", lambda seen: seen):
            seen, _ = env.reset(seed=seed)
            for _ in range(resolved.max_turns):
                step = env.step(parrot(seen))
                seen = step.observation
                assert not step.info.get("success"), f"seed {seed} was won by saying nothing, a constant, or an echo"
                if step.terminated or step.truncated:
                    break
    env.close()


def _a_snapshot_goes_back_to_where_it_was_taken(resolved: Resolved, episodes: int, hostile: int) -> None:
    if not resolved.entry.deterministic:
        return
    env, other = resolved.make(), resolved.make()
    for seed in range(episodes):
        env.reset(seed=seed)
        step = env.step(env.random_action())
        if step.terminated or step.truncated:
            continue
        state = env.snapshot()
        actions = [env.random_action() for _ in range(5)]
        first = _play(env, actions)
        env.restore(state)
        assert _play(env, actions) == first, f"seed {seed}: the restored state went on differently"
        other.restore(state)
        assert _play(other, actions) == first, f"seed {seed}: another instance went on differently from the snapshot"
    env.close()
    other.close()


def _play(env: Env, actions: list[str]) -> list[tuple[Any, ...]]:
    played = []
    for action in actions:
        step = env.step(action)
        played.append(step[:4])
        if step.terminated or step.truncated:
            break
    return played


def _closing_twice_is_fine(resolved: Resolved, episodes: int, hostile: int) -> None:
    env = resolved.make()
    env.reset(seed=0)
    env.close()
    env.close()


_CHECKS: tuple[Callable[[Resolved, int, int], None], ...] = (
    _reset_answers_with_text_and_info,
    _steps_keep_their_types,
    _native_reward_is_the_weighing_of_its_terms,
    _the_seed_decides_the_episode,
    _threads_do_not_disturb_each_other,
    _looking_for_an_action_changes_nothing,
    _hostile_actions_are_answered_in_words,
    _a_step_outside_an_episode_raises,
    _the_oracle_wins_within_the_turns,
    _silence_does_not_win,
    _a_snapshot_goes_back_to_where_it_was_taken,
    _closing_twice_is_fine,
)
