"""The engine agrees with what the original recorded, and refuses what is no game."""

import gzip
import json
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.textworld.game import TextWorldGame
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import EpisodeOver, UsageError

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "environments"
with gzip.open(GOLDEN / "textworld_transcripts.jsonl.gz", "rt", encoding="utf-8") as lines:
    TRANSCRIPTS = [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded games, unpacked."""
    folder = tmp_path_factory.mktemp("textworld")
    with tarfile.open(GOLDEN / "textworld_games.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def shown(game: TextWorldGame) -> tuple[Any, ...]:
    return game.admissible, game.score, game.won, game.lost


def recorded(step: dict[str, Any]) -> tuple[Any, ...]:
    return step["admissible"], step["score"], step["won"], step["lost"]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda row: f"{row['game']}-{row['mode']}")
def test_a_recorded_game_replays(games: Path, transcript: dict[str, Any]) -> None:
    game = TextWorldGame.from_json(games / f"{transcript['game']}.json")
    assert game.max_score == transcript["max_score"]
    assert shown(game) == recorded(transcript["reset"])
    for step in transcript["steps"]:
        game.act(step["cmd"])
        assert shown(game) == recorded(step), f"after {step['cmd']!r}"


def test_a_game_begins_anew_after_reset(games: Path) -> None:
    game = TextWorldGame.from_json(games / "w2-o3-q4_50002.json")
    start = shown(game)
    walkthrough = next(row["walkthrough"] for row in TRANSCRIPTS if row["game"] == "w2-o3-q4_50002")
    for command in walkthrough:
        game.act(command)
    assert game.won and game.score == game.max_score
    with pytest.raises(EpisodeOver):
        game.act("look")
    game.reset()
    assert shown(game) == start


def test_eating_what_was_wanted_loses_and_does_not_win(games: Path) -> None:
    lost = next(row for row in TRANSCRIPTS if row["steps"][-1]["lost"])
    game = TextWorldGame.from_json(games / f"{lost['game']}.json")
    for step in lost["steps"]:
        game.act(step["cmd"])
    assert game.lost and not game.won


def written(data: Any, folder: Path) -> Path:
    path = folder / "game.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        TextWorldGame.from_json(path)
    message = str(caught.value)
    assert "\n" not in message and len(message) <= 500
    return message


def hostile(whole: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    text = json.dumps(whole)
    logic = whole["KB"]["logic"]
    quest = whole["quests"][0]
    yield "empty", ""
    yield "truncated", text[: len(text) // 2]
    yield "no object", "[1, 2]"
    yield "deep", "[" * 100_000 + "]" * 100_000
    yield "deep objects", '{"world":' * 50_000
    yield "a huge number", text.replace('"version": 1', '"version": ' + "9" * 10_000)
    yield "a huge reward", {**whole, "quests": [{**quest, "reward": 10**30}]}
    yield "no number", text.replace('"reward": 1', '"reward": NaN')
    yield "an infinite reward", text.replace('"reward": 1', '"reward": 1e999')
    yield "no world", {key: value for key, value in whole.items() if key != "world"}
    yield "an empty world", {**whole, "world": []}
    yield "text for a list", {**whole, "quests": "none"}
    yield "too many quests", {**whole, "quests": [quest] * 501}
    yield "an event of nothing", {
        **whole, "quests": [{**quest, "win_events": [{"condition": {"preconditions": []}}]}]
    }  # fmt: skip
    player = next(fact for fact in whole["world"] if fact["arguments"][0]["name"] == "P")
    other = {**player, "arguments": [player["arguments"][0], {"name": "r_99", "type": "r"}]}
    yield "two players", {**whole, "world": [*whole["world"], other]}
    yield "no names", {**whole, "infos": []}
    yield (
        "two types",
        {**whole, "world": [*whole["world"], {"name": "at", "arguments": [{"name": "r_0", "type": "c"}]}]},
    )
    yield (
        "an unknown type",
        {**whole, "world": [*whole["world"], {"name": "at", "arguments": [{"name": "x", "type": "y"}]}]},
    )
    thousands = [
        {"name": "at", "arguments": [{"name": f"o_{k}", "type": "o"}, {"name": "r_0", "type": "r"}]}
        for k in range(9_000)
    ]
    yield "thousands of things", {**whole, "world": [*whole["world"], *thousands]}
    many = [("c", f"c_{k}") for k in range(300)] + [("o", f"o_{k}") for k in range(300)]
    piled = [
        {"name": "at", "arguments": [{"name": name, "type": kind}, {"name": "r_0", "type": "r"}]} for kind, name in many
    ]
    yield "everything fits into everything", {**whole, "world": [*whole["world"], *piled]}
    for name, rules in hostile_rules(logic):
        yield name, {**whole, "KB": {"logic": rules}}


def hostile_rules(logic: str) -> Iterator[tuple[str, str]]:
    yield "no rules", ""
    yield "broken rules", logic[: len(logic) // 3]
    yield "endless rules", logic + "#" * 2_000_000
    yield "a cycle of types", logic + "type x : y { } type y : x { }"
    yield "a tower of types", logic + " ".join(f"type x{k} : x{k + 1} {{ }}" for k in range(5_000))
    yield "a parent that is not there", logic + "type x : nothing { }"
    yield (
        "a cycle of aliases",
        logic + "type x { predicates { p(r) = q(r); q(r) = p(r); } rules { z :: p(r) -> q(r); } }",
    )
    yield "aliases that double", logic + "type x { predicates { " + " ".join(
        f"p{k}(r) = p{k + 1}(r) & p{k + 1}(r);" for k in range(60)
    ) + " } rules { z :: p0(r) -> p0(r); } }"  # fmt: skip
    many = ", ".join(f"x{k}: t" for k in range(8))
    yield "a rule for everything", logic + (
        f"type x {{ rules {{ z :: p({many}) & q({many.replace('x', 'y')}) -> p({many}) & z(P); "
        f"zz :: z(P) -> p({many}); }} inform7 {{ commands {{ zz :: \"zz\" :: \"\"; z :: \"z\" :: \"\"; }} }} }}"
    )  # fmt: skip
    yield "a type in itself", "type " * 10_000
    yield "braces", logic + "type x " + "{" * 50_000
    yield "a format string", logic + "type x { inform7 { commands { look :: {o.__class__} } } }"


def test_hostile_files_are_refused_in_one_line(games: Path, tmp_path: Path) -> None:
    whole = json.loads((games / "w2-o3-q4_50002.json").read_text(encoding="utf-8"))
    TextWorldGame.from_json(written(whole, tmp_path))
    for _, data in hostile(whole):
        refusal(written(data, tmp_path))


def test_a_house_of_hundreds_of_rooms_is_read(games: Path, tmp_path: Path) -> None:
    """The coin collector's largest has 300; binding the map must not try every pair of them."""
    whole = json.loads((games / "coin_5.json").read_text(encoding="utf-8"))
    rooms = [{"name": f"r_{k}", "type": "r"} for k in range(1_000, 1_900)]
    whole["world"] += [
        {"name": name, "arguments": [here, there]} for here, there in pairwise(rooms) for name in ("north_of", "free")
    ]
    whole["infos"] += [[room["name"], {"id": room["name"], "type": "r", "name": room["name"]}] for room in rooms]
    before = TextWorldGame.from_json(games / "coin_5.json").admissible
    assert TextWorldGame.from_json(written(whole, tmp_path)).admissible == before


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    assert "no file" in refusal(tmp_path / "nowhere.json")
    assert "no file" in refusal(tmp_path)
    binary = tmp_path / "binary.json"
    binary.write_bytes(bytes(range(256)))
    refusal(binary)


@given(cut=st.integers(0, 40_000), junk=st.binary(max_size=8))
def test_no_damage_raises_anything_but_a_refusal(games: Path, cut: int, junk: bytes) -> None:
    content = (games / "w2-o3-q4_50002.json").read_bytes()
    cut %= len(content)
    damaged = games / "damaged.json"
    damaged.write_bytes(content[:cut] + junk + content[cut + len(junk) :])
    said = ""
    try:
        TextWorldGame.from_json(damaged)
    except UsageError as error:
        said = str(error)
    assert "\n" not in said
