"""The genuine engine keeps our contract where upstream harnesses do not: commands, ends, rewards, crashes."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.textworld import genuine
from agentbench_envs.textworld.genuine import LONGEST_COMMAND, META, NO_PLAN, GenuineEnv, command_of
from agentbench_envs.textworld.stories import SIMPLE_SEEDS, Recipe, seeds_of, split_of
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.checks import play_random
from agentbench.core.errors import PrerequisiteError, Unsolvable, UsageError
from agentbench.core.policy import EpisodeContext, Session
from agentbench.core.registry import environments, make, resolve
from agentbench.core.types import Message, Reply, Sampling
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.evaluate.lock import panel_hash
from agentbench.policies import scripted
from agentbench.remote.interpreter import variable
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.pool import Played, play
from tests.cli.command import agentbench, assert_one_clear_line

TEXTWORLD = pytest.mark.usefixtures("genuine_textworld")


def env_of(games: Path, name: str, **kwargs: bool) -> GenuineEnv:
    """Start an environment of the recorded games and reset it to one of them."""
    env = GenuineEnv(games=str(games), split="all", **kwargs)  # type: ignore[arg-type]
    names = [story.path.stem for story in env._brought or ()]
    env.reset(seed=names.index(name))
    return env


@pytest.mark.parametrize("verb", sorted(META))
def test_a_verb_for_the_interpreter_is_not_said(verb: str) -> None:
    assert command_of(verb) is None
    assert command_of(f"  {verb.upper()} the game ") is None
    assert command_of(f"look then {verb}") is None


@pytest.mark.parametrize(
    "action", ["tw-print max_score", "tw-extra-infos moves", "look. undo", "look, undo", "look\x00", "", "ö", "> look"]
)
def test_what_could_reach_the_hidden_state_is_not_said(action: str) -> None:
    assert command_of(action) is None


@given(st.text())
def test_a_command_is_one_line_of_plain_words(action: str) -> None:
    command = command_of(action)
    if command is not None:
        assert command == " ".join(action.lower().split())
        assert set(command) <= set("abcdefghijklmnopqrstuvwxyz0123456789 '-")
        assert len(command) <= LONGEST_COMMAND


@TEXTWORLD
def test_a_command_that_is_not_said_changes_nothing(games: Path) -> None:
    env = env_of(games, "w2-o3-q4_50002")
    before = env.step("look").observation
    for action in ("undo", "quit", "restart", "tw-print max_score", "save", "look. look", "x" * 500, "\n"):
        step = env.step(action)
        assert step.observation == "That's not a verb I recognise."
        assert not step.info["valid"] and step.reward == 0.0
    assert env.step("look").observation == before
    assert env.oracle()
    env.close()


@TEXTWORLD
def test_a_command_counts_as_valid_if_it_did_something(games: Path) -> None:
    env = env_of(games, "w2-o3-q4_50002")
    assert env.step("w").info["valid"], "a short form of a possible command"
    assert not env.step("go up").info["valid"]
    assert not env.step("xyzzy").info["valid"]
    env.close()


@TEXTWORLD
def test_losing_ends_without_success(games: Path) -> None:
    env = env_of(games, "tw_simple_dense_2")
    plan = env.oracle()
    food = plan[-1].removeprefix("put ").removesuffix(" on stove")
    earned = sum(env.step(command).reward for command in plan[: plan.index(f"take {food}") + 1])
    step = env.step(f"eat {food}")
    assert step.terminated and not step.truncated
    assert step.info["success"] is False and step.info["lost"]
    assert step.info["terms"] == {"score": 0.0, "progress": -1.0, "lost": 1.0}
    assert earned == step.info["score"] > 0
    assert step.info["potential"] == 0.0
    env.close()


@TEXTWORLD
def test_what_cannot_be_won_any_more_has_no_plan(games: Path, tmp_path: Path) -> None:
    game = json.loads((games / "tw_simple_sparse_2.json").read_text(encoding="utf-8"))
    # Without the quest that only fails, eating what is wanted does not lose.
    game["quests"] = [quest for quest in game["quests"] if quest["win_events"]]
    (tmp_path / "no_failure.json").write_text(json.dumps(game), encoding="utf-8")
    env = GenuineEnv(games=str(tmp_path), split="all")
    env.reset(seed=0)
    plan = env.oracle()
    food = plan[-1].removeprefix("put ").removesuffix(" on stove")
    for command in plan[: plan.index(f"take {food}") + 1]:
        assert env.step(command).info["potential"] > -1.0
    step = env.step(f"eat {food}")
    assert not step.terminated and step.info["potential"] == NO_PLAN
    with pytest.raises(Unsolvable):
        env.oracle()
    env.close()


@TEXTWORLD
def test_the_potential_rises_along_the_plan(games: Path) -> None:
    env = env_of(games, "w4-o6-q8_2")
    steps = [env.step(command) for command in env.oracle()]
    potentials = [-1.0, *(step.info["potential"] for step in steps)]
    assert potentials == sorted(potentials) and potentials[-1] == 0.0
    assert [step.info["terms"]["progress"] for step in steps] == [1.0] * len(steps)
    assert steps[-1].info["success"]
    env.close()


@TEXTWORLD
def test_the_possible_commands_are_shown_on_request(games: Path) -> None:
    env = env_of(games, "coin_5", show_admissible=True)
    assert env.step("look").observation.endswith("\n\nPossible: go south, inventory, look.")
    env.close()


@TEXTWORLD
@pytest.mark.slow
def test_the_goal_is_told_as_asked() -> None:
    told = {}
    for goal in ("none", "brief", "detailed"):
        env = make("textworld/z8-simple-dense", goal=goal)
        observation, info = env.reset(seed=0)
        told[goal] = info["goal"]
        assert observation.startswith(info["goal"])
        again = env.step("goal").observation
        assert again == info["goal"] if goal != "none" else "chest drawer" not in again
        env.close()
    assert told["none"] == ""
    assert 0 < len(told["brief"]) < len(told["detailed"])


@TEXTWORLD
def test_threads_play_the_serial_episodes(games: Path, scale: float) -> None:
    def episode(seed: int) -> object:
        env = GenuineEnv(games=str(games), split="all")
        record = play_random(env, seed, limit=8)
        env.close()
        return record

    serial = [episode(seed) for seed in range(4)]
    with ThreadPoolExecutor(32 if scale > 1 else 4) as threads:
        assert list(threads.map(episode, list(range(4)) * 4)) == serial * 4


class Assassin:
    """Plays as the oracle does, and once, at the second turn, does something to the engine."""

    name, version, scripted = "assassin", 0, True

    def __init__(self, deed: Callable[[int], None]) -> None:
        self.deed: Callable[[int], None] | None = deed

    def start(self, episode: EpisodeContext) -> Session:
        return _Attempt(self, episode, scripted.oracle().start(episode))


class _Attempt:
    def __init__(self, assassin: Assassin, episode: EpisodeContext, inner: Session) -> None:
        self.assassin, self.episode, self.inner, self.turn = assassin, episode, inner, 0

    async def reply(self, messages: Sequence[Message], sampling: Sampling, *, seed: int) -> Reply:
        reply = await self.inner.reply(messages, sampling, seed=seed)
        self.turn += 1
        if self.turn == 2 and self.assassin.deed is not None:
            deed, self.assassin.deed = self.assassin.deed, None
            assert isinstance(self.episode.env, GenuineEnv)
            deed(self.episode.env._session.process.pid)
        return reply

    async def close(self) -> None:
        await self.inner.close()


def play_with(deed: Callable[[int], None], games: Path) -> list[Played]:
    resolved = resolve("textworld/z8-w4-o6-q8", games=str(games), split="all")
    plan = plan_tasks(resolved, 4, 1, seed=0)

    async def played() -> list[Played]:
        setting = Setting(resolved, Limits(resolved.max_turns))
        return [each async for each in play(plan, setting, Assassin(deed), jobs=2, retries=1)]

    return asyncio.run(played())


@TEXTWORLD
@pytest.mark.parametrize(
    ("number", "cause", "said"),
    [(signal.SIGKILL, "environment", "killed by SIGKILL"), (signal.SIGSTOP, "timeout", "did not answer step in time")],
)
def test_a_crash_or_a_hang_in_mid_episode_is_retried_and_scored_right(
    games: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, cause: str, said: str
) -> None:
    monkeypatch.setattr(genuine, "STEP_SECONDS", 3.0)
    attempts = play_with(lambda pid: os.kill(pid, number), games)
    broken = [each.trajectory for each in attempts if each.trajectory.end == "failure"]
    assert len(attempts) == 5 and len(broken) == 1
    failure = broken[0].failure
    assert failure is not None and failure["cause"] == cause and said in failure["message"]
    assert broken[0].success is None, "a failure of the engine is no outcome"
    scored = [each.trajectory for each in attempts if each.trajectory.scored]
    assert [trajectory.success for trajectory in scored] == [True] * 4
    assert [trajectory.retry for trajectory in scored if trajectory.task == broken[0].task] == [1]


def test_without_textworld_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    if not any("site-packages" in path and Path(path, "textworld").exists() for path in sys.path):
        done = agentbench("eval", "-e", "textworld/z8-w2-o3-q4", "-m", "oracle", cwd=tmp_path)
        assert_one_clear_line(done, 4, "textworld/z8-w2-o3-q4@", "pip install -e '.[textworld]'", variable("textworld"))
    assert not (tmp_path / "runs").exists()


def test_an_interpreter_without_textworld_is_named(tmp_path: Path) -> None:
    python = {variable("textworld"): sys.executable}
    for value, said in ((sys.executable, "has no textworld"), (str(tmp_path / "python"), "cannot be run")):
        python[variable("textworld")] = value
        done = agentbench("eval", "-e", "textworld/z8-w2-o3-q4", "-m", "oracle", cwd=tmp_path, **python)
        assert_one_clear_line(done, 4, value, said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("textworld"), sys.executable)
        with pytest.raises(PrerequisiteError, match="has no textworld"):
            make("textworld/z8-w2-o3-q4")


@pytest.mark.parametrize(
    "wrong", [{"family": "chess"}, {"goal": "vague"}, {"split": "exam"}, {"skills": "juggle"}], ids=str
)
def test_an_argument_out_of_range_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=f"found {next(iter(wrong))} '{next(iter(wrong.values()))}', expected"):
        GenuineEnv(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("family", "name", "value"),
    [
        ("coin", "level", 0), ("coin", "level", 151), ("coin", "level", 234), ("coin", "level", 301),
        ("treasure", "level", 31), ("cooking", "rooms", 2), ("cooking", "ingredients", 6), ("custom", "rooms", 0),
        ("custom", "objects", 0), ("custom", "length", 0), ("custom", "breadth", 0),
    ],
)  # fmt: skip
def test_what_tw_make_would_refuse_is_refused_before_any_episode(family: Any, name: str, value: int) -> None:
    sizes: dict[str, Any] = {"rooms": 1, name: value}
    with pytest.raises(UsageError, match=f"found {name} {value}, expected"):
        GenuineEnv(family=family, **sizes)


@TEXTWORLD
@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in environments()["textworld"].variants if name.startswith("z8-")])
def test_every_genuine_variant_is_won_by_its_oracle(variant: str) -> None:
    env = make(f"textworld/{variant}", split="test")
    env.reset(seed=3)
    steps = [env.step(command) for command in env.oracle()]
    assert steps[-1].terminated and steps[-1].info["success"]
    env.close()


@TEXTWORLD
@pytest.mark.slow
def test_the_two_engines_have_different_panels() -> None:
    engines = [resolve(f"textworld/{variant}") for variant in ("w2-o3-q4", "z8-w2-o3-q4")]
    panels = [panel_hash(each, plan_tasks(each, 2, 1, seed=0)) for each in engines]
    assert len(set(panels)) == 2
    tasks = [{planned.task for planned in plan_tasks(each, 2, 1, seed=0)} for each in engines]
    assert not tasks[0] & tasks[1]


def test_every_genuine_variant_is_told_from_the_native_ones() -> None:
    for variant in environments()["textworld"].variants:
        entry_point = resolve(f"textworld/{variant}").entry_point
        assert variant.startswith("z8-") == entry_point.endswith("genuine:GenuineEnv")


@TEXTWORLD
@pytest.mark.slow
def test_splits_differ_in_content(scale: float) -> None:
    seen: dict[str, str] = {}
    for split in ("train", "valid", "test"):
        env = make("textworld/z8-w2-o3-q4", split=split)
        for seed in range(max(3, round(5 * scale))):
            content = env.content(seed)
            assert content is not None and split_of(content) == split
            assert seen.setdefault(content, split) == split
        env.close()


@TEXTWORLD
@pytest.mark.slow
def test_the_finite_family_has_thirty_six_different_games() -> None:
    recipe = Recipe("tw-simple", "detailed", (("rewards", "sparse"),))
    parts = [seeds_of(recipe, split) for split in ("train", "valid", "test")]
    assert sorted(seed for part in parts for seed in part or ()) == sorted(SIMPLE_SEEDS)
    env = GenuineEnv(family="simple", rewards="sparse")
    drafts = [env._session.call("draft", 120, recipe=recipe.sent, seed=seed) for seed in SIMPLE_SEEDS]
    env.close()
    assert len({tuple(draft["walkthrough"]) for draft in drafts}) == len({d["content"] for d in drafts}) == 36
