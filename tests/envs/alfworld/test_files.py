"""The original's files: which are found, in which order, and how broken ones are refused."""

import json
from pathlib import Path

import pytest
from agentbench_envs.alfworld.env import AlfworldEnv
from agentbench_envs.alfworld.files import find_games, read_game
from agentbench_envs.alfworld.pddl import MOST_CHARACTERS
from agentbench_envs.alfworld.text import NEW, OLD

from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.core.registry import resolve
from tests.envs.alfworld.games import NEW_GRAMMAR, OLD_GRAMMAR, game_file, problems
from tests.envs.alfworld.test_game import ROOM


def put(folder: Path, name: str, text: str, split: str = "valid_seen") -> Path:
    file = folder / split / name / "game.tw-pddl"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_the_variable_or_the_argument_names_the_data(alfworld_data: Path, tmp_path: Path) -> None:
    env = resolve("alfworld/original:valid_seen").make()
    found = len(list((alfworld_data / "json_2.1.1" / "valid_seen").iterdir()))
    assert env.task_count == found > 0
    put(tmp_path, "only", game_file(ROOM, "put a cool apple in fridge"))
    other = AlfworldEnv(source="original", data=str(tmp_path), split="valid_seen")
    assert other.task_count == 1
    assert other.reset(seed=5)[0].endswith("Your task is to: put a cool apple in fridge.")


def test_without_data_the_user_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ALFWORLD_DATA")
    with pytest.raises(PrerequisiteError, match="ALFWORLD_DATA or -E data=DIR"):
        resolve("alfworld/original").make()
    with pytest.raises(PrerequisiteError, match="no folder"):
        AlfworldEnv(source="original", data=str(tmp_path / "nowhere"), split="train")
    with pytest.raises(PrerequisiteError, match="holds no folder train"):
        AlfworldEnv(source="original", data=str(tmp_path), split="train")


def test_games_are_taken_by_path_and_only_those_that_count(tmp_path: Path) -> None:
    for name in ("b", "a", "pick-movable-x", "pick-AppleSliced-y"):
        put(tmp_path, name, game_file(ROOM, "x"))
    put(tmp_path, "c", game_file(ROOM, "x", solvable=False))
    assert [file.parent.name for file in find_games(tmp_path, "valid_seen")] == ["a", "b"]


def test_a_split_without_games_says_so(tmp_path: Path) -> None:
    put(tmp_path, "c", game_file(ROOM, "x", solvable=False), split="train")
    with pytest.raises(UsageError, match="holds no solvable"):
        find_games(tmp_path, "train")
    with pytest.raises(UsageError, match="the split 'test'"):
        find_games(tmp_path, "test")


def test_the_generation_is_read_from_the_grammar(tmp_path: Path) -> None:
    old = read_game(put(tmp_path, "old", game_file(ROOM, "x", grammar=OLD_GRAMMAR)))
    new = read_game(put(tmp_path, "new", game_file(ROOM, "x", grammar=NEW_GRAMMAR)))
    assert (old.wording, new.wording) == (OLD, NEW)


def test_tasks_written_by_people_keep_their_quotes(tmp_path: Path) -> None:
    world = read_game(put(tmp_path, "one", game_file(ROOM, 'put the "good" apple away, please')))
    assert world.task == 'put the "good" apple away, please'


def test_the_oracle_wins_the_originals_games(alfworld_data: Path) -> None:
    for split in ("train", "valid_seen", "valid_unseen"):
        env = AlfworldEnv(source="original", split=split)
        for seed in range(env.task_count or 0):
            env.reset(seed=seed)
            assert [env.step(action) for action in env.oracle()][-1].info["success"]


def test_no_two_games_have_one_content(alfworld_data: Path) -> None:
    env = AlfworldEnv(source="original", split="train")
    count = env.task_count or 0
    assert len({env.content(seed) for seed in range(2 * count)}) == count


PROBLEM = next(iter(problems().values()))[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[1, 2]",
        "[" * 200_000,
        '{"pddl_problem": ' + "9" * 100_000 + "}",
        '{"pddl_problem": "x", "grammar": null}',
        game_file(PROBLEM, "x", grammar="a grammar of another game"),
        game_file(PROBLEM, "x").replace("Your task", "Your wish"),
        game_file(PROBLEM[: len(PROBLEM) // 2], "x"),
        game_file(PROBLEM, "x")[:10_000],
        game_file("(" * 1_000_000, "x"),
        game_file(ROOM.replace("(isCool ?o)", "(and " * 200 + ")" * 200), "x"),
        game_file(ROOM, "x", padding="x" * MOST_CHARACTERS),
        "\x00" * 1000,
    ],
    ids=range(14),
)
def test_broken_and_hostile_files_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = put(tmp_path, "broken", text + ' "solvable": true')
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        read_game(file)
    line = str(refused.value)
    assert line.startswith(f"{file}: ")
    assert len(line) < len(str(file)) + 200
    assert "\n" not in line


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = put(tmp_path, "broken", "")
    file.write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(UsageError, match="utf-8"):
        read_game(file)


def test_files_of_the_original_hold_what_is_looked_for() -> None:
    assert json.loads(game_file(ROOM, "x"))["solvable"] is True
