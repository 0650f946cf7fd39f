"""Games are made once, whole, whoever races; what is broken or hostile is refused with one clear line."""

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.textworld import stories
from agentbench_envs.textworld.genuine import GenuineEnv
from agentbench_envs.textworld.stories import Shelf, check_json, check_story

from agentbench.core.errors import UsageError
from agentbench.remote.interpreter import variable
from tests.cli.command import agentbench, assert_one_clear_line

TEXTWORLD = pytest.mark.usefixtures("genuine_textworld")
GAME = "w2-o3-q4_50002"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, genuine_textworld: None) -> Path:
    monkeypatch.setenv("AGENTBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "textworld-1.7.0"


@pytest.fixture
def one(games: Path, tmp_path: Path) -> Path:
    """A folder with one game."""
    folder = tmp_path / "one"
    folder.mkdir()
    for suffix in (".z8", ".json"):
        shutil.copy(games / f"{GAME}{suffix}", folder)
    return folder


def start(_: object = None) -> str:
    """Make the first game of the smallest challenge, and say what it is."""
    env = GenuineEnv(family="treasure", level=1, split="all")
    observation, _ = env.reset(seed=0)
    env.close()
    return observation


@pytest.mark.slow
def test_whoever_races_makes_one_game(cache: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        seen = set(threads.map(start, range(4)))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        seen |= set(processes.map(start, range(2)))
    assert len(seen) == 1
    assert [path.name for path in cache.iterdir() if not path.name.startswith(".")] == [_made(cache).name]
    assert {path.name for path in _made(cache).iterdir()} == {"game.z8", "game.json", "made.json"}


@pytest.mark.slow
def test_a_game_that_was_damaged_is_made_again_alike(cache: Path) -> None:
    first = start()
    for damage in (lambda path: path.write_bytes(b"torn"), Path.unlink):
        whole = (_made(cache) / "game.json").read_bytes()
        damage(_made(cache) / "game.z8")
        assert start() == first
        assert (_made(cache) / "game.json").read_bytes() == whole, "the same seed made another game"


def _made(cache: Path) -> Path:
    return next(path for path in cache.iterdir() if not path.name.startswith("."))


@TEXTWORLD
def test_the_cache_is_where_the_user_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTBENCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Shelf("1.7.0").folder == tmp_path / "agentbench" / "textworld-1.7.0"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Shelf("1.7.0").folder == Path.home() / ".cache" / "agentbench" / "textworld-1.7.0"


@TEXTWORLD
def test_a_json_alone_is_compiled_and_plays_alike(one: Path) -> None:
    def walk() -> list[Any]:
        env = GenuineEnv(games=str(one), split="all")
        record: list[Any] = [env.reset(seed=0)]
        record += [env.step(command)[:4] for command in env.oracle()]
        env.close()
        return record

    with_story = walk()
    (one / f"{GAME}.z8").unlink()
    assert walk() == with_story
    assert not list(one.glob("*.z8")), "the user's folder was written to"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200_000])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100_000] ^= 1
    path.write_bytes(data)


def write(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "was cut: it has 200000 bytes"),
        (flip, "was changed: its checksum"),
        (write(b""), "no story file of version 8"),
        (write(b"\x08" + b"\xff" * 100), "was cut"),
        (write(b"\x05" * 100_000), "no story file of version 8"),
        (write(b"\x08" * 600_000), "has 600000 bytes"),
    ],
)
def test_a_broken_story_is_refused(one: Path, damage: Callable[[Path], None], said: str) -> None:
    path = one / f"{GAME}.z8"
    damage(path)
    with pytest.raises(UsageError, match=said):
        check_story(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 200_000, "no JSON"),
        ('{"a":' * 200_000, "no JSON"),
        ("1" * 100_000, "no JSON"),
        ("\ud800", "no JSON"),
        ("[1e999]", "lacks"),
        ("3", "lacks"),
        ('{"KB": 1}', "lacks 'infos', 'quests', 'world'"),
        (" " * 17_000_000, "has 17000000 bytes"),
    ],
    ids=lambda value: value[:12],
)
def test_a_broken_json_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "game.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError, match=said):
        check_json(path)


def put(game: dict[str, Any], value: Any, *keys: Any) -> None:
    for key in keys[:-1]:
        game = game[key]
    game[keys[-1]] = value


HOSTILE: dict[str, Callable[[dict[str, Any]], None]] = {
    "no world": lambda game: put(game, [], "world"),
    "a world of numbers": lambda game: put(game, list(range(100)), "world"),
    "quests that are none": lambda game: put(game, [{"a": 1}] * 100, "quests"),
    "rules that are none": lambda game: put(game, {"logic": "type t { " * 1000, "text_grammars_path": ""}, "KB"),
    "a quest of many": lambda game: put(game, game["quests"] * 5_000, "quests"),
    "infos that are none": lambda game: put(game, [[None, None]] * 10, "infos"),
    "a huge version": lambda game: put(game, 10**400, "version"),
}


@TEXTWORLD
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_game_is_refused_before_any_episode(one: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "LOAD_SECONDS", 8.0)
    monkeypatch.setattr(stories, "COMPILE_SECONDS", 8.0)
    path = one / f"{GAME}.json"
    game = json.loads(path.read_text())
    HOSTILE[kind](game)
    path.write_text(json.dumps(game))
    for story in ("with", "without"):
        if story == "without":
            (one / f"{GAME}.z8").unlink()
        with pytest.raises(UsageError, match="cannot be played") as refused:
            GenuineEnv(games=str(one), split="all").close()
        assert len(str(refused.value)) < 800


@TEXTWORLD
def test_a_folder_without_a_fitting_game_is_refused(tmp_path: Path, one: Path) -> None:
    with pytest.raises(UsageError, match="no folder of games"):
        GenuineEnv(games=str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="split 'all' takes every game"):
        GenuineEnv(games=str(tmp_path / "empty"))
    (one / f"{GAME}.json").unlink()
    with pytest.raises(UsageError, match=rf"has no {GAME}.json beside it"):
        GenuineEnv(games=str(one), split="all")


@TEXTWORLD
def test_the_command_refuses_a_broken_game_with_one_line(one: Path) -> None:
    cut(one / f"{GAME}.z8")
    python = {variable("textworld"): os.environ[variable("textworld")]} if variable("textworld") in os.environ else {}
    done = agentbench(
        "eval", "-e", "textworld/z8-w2-o3-q4:all", "-E", f"games={one}", "-m", "oracle", cwd=one, **python
    )
    assert_one_clear_line(done, 2, f"{GAME}.json cannot be played", "was cut")
    assert not (one / "runs").exists()
