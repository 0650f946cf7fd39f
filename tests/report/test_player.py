"""What the player is given: the episode as it was, token by token where that is known, within bounds."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.plain import plain
from agentbench.policies.pieces import Pieces, find_pieces
from agentbench.report.player import EPISODE, LIMIT, TEXT, episode_data, show_player
from agentbench.report.runs import Episode, choose, evenly, read_episodes, read_runs
from agentbench.rollout.context import split_thoughts
from tests.report.written import HOSTILE, turn_of, write_evaluation

BUNDLED = Path(__file__).parents[2] / "agentbench" / "bundled" / "sokoban-tiny"
REPLIES = st.lists(st.sampled_from(["<think>", "</think>", "go", " left", "\n", "é", "<|im_end|>", "<"])).map("".join)


def episodes_of(path: Path) -> list[Episode]:
    (run,) = read_runs([path])
    return list(read_episodes(run, run.episodes))


def test_an_episode_is_shown_as_it_was(tmp_path: Path) -> None:
    turns = [turn_of("say red", "red", reward=0.5), turn_of("say blue", "blue", traced=False)]
    (episode,) = episodes_of(write_evaluation(tmp_path, [(turns, True)]))
    data = episode_data(episode)
    assert (data["success"], data["end"], data["reward"], data["final"]) == (True, "terminated", 0.5, "the end")
    first, second = data["turns"]
    assert first["reply"] == [{"thought": False, "text": "red"}], "without a tokenizer a reply is one text"
    assert (first["entropy"], first["value"], first["advantage"], first["terms"]) == (1.0, 0.5, -0.05, {"right": 0.5})
    assert (second["entropy"], second["value"], second["advantage"]) == (None, None, None)


@given(REPLIES)
def test_thoughts_and_words_make_up_the_reply(reply: str) -> None:
    parts = split_thoughts(reply)
    assert "".join(text for _, text in parts) == reply
    assert all("think>" in text for is_thought, text in parts if is_thought)


def test_thoughts_are_told_from_words() -> None:
    assert split_thoughts("<think>hm</think>left") == [(True, "<think>hm</think>"), (False, "left")]
    assert split_thoughts("hm</think>left") == [(True, "hm</think>"), (False, "left")], "opened by the prompt"
    assert split_thoughts("left") == [(False, "left")]


@given(st.lists(st.integers(0, 511), min_size=1, max_size=30))
def test_the_texts_of_tokens_make_up_the_reply(ids: list[int]) -> None:
    pieces = find_pieces([BUNDLED])
    assert pieces is not None
    ids = [i % pieces._tokenizer.get_vocab_size() for i in ids]
    texts = pieces.of(ids, pieces._tokenizer.decode(ids, skip_special_tokens=True))
    assert texts is not None and len(texts) == len(ids)
    assert "".join(texts) == pieces._tokenizer.decode(ids, skip_special_tokens=False)


def test_another_tokenizer_is_noticed() -> None:
    assert Pieces(BUNDLED).of([40, 41, 42], "what it does not say") is None
    assert Pieces(BUNDLED).of([10**15], "x") is Pieces(BUNDLED).of([-1], "x") is None
    assert find_pieces([Path("/nowhere")]) is None


def test_tokens_carry_their_numbers_and_know_whether_they_are_thoughts(tmp_path: Path) -> None:
    pieces = Pieces(BUNDLED)
    text = "<think>up</think>left"
    ids = pieces._tokenizer.encode(text, add_special_tokens=False).ids
    turn = turn_of("go", text)
    entropies = tuple(0.1 * i for i in range(len(ids)))
    turn.reply = type(turn.reply)(text, token_ids=tuple(ids), entropies=entropies, logprobs=(-1.0,) * len(ids))
    (episode,) = episodes_of(write_evaluation(tmp_path, [([turn], True)]))
    thought, said = episode_data(episode, pieces)["turns"][0]["reply"]
    assert (thought["thought"], said["thought"]) == (True, False)
    shown = [*thought["tokens"], *said["tokens"]]
    assert "".join(token[0] for token in shown) == text
    assert [token[1] for token in shown] == pytest.approx(entropies, rel=1e-3)
    assert "".join(token[0] for token in said["tokens"]) in ("left", ">left"), "a token belongs where it begins"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_changes_nothing_but_itself(text: str, tmp_path: Path) -> None:
    calm = ([turn_of("calm", "fine")], True)
    path = write_evaluation(tmp_path, [calm, ([turn_of(text, text, traced=False)], False), calm])
    before, hostile, after = [episode_data(episode) for episode in episodes_of(path)]
    assert before["turns"] == after["turns"]
    assert hostile["turns"][0]["observation"] == plain(text)
    assert json.loads(json.dumps(hostile)) == hostile


def test_megabytes_are_cut_and_what_does_not_fit_is_left_out(tmp_path: Path) -> None:
    long = turn_of("x" * 100_000, "y" * 100_000, traced=False)
    path = write_evaluation(tmp_path, [([long] * 10, True)] * 12)
    shown = show_player(episodes_of(path))
    assert 0 < shown.episodes < 12 and shown.left_out == 12 - shown.episodes
    assert sum(map(len, shown.parts)) < LIMIT + 10_000
    (first, *_) = episodes_of(path)
    observation = episode_data(first)["turns"][0]["observation"]
    assert observation.startswith("x" * TEXT) and observation.endswith(
        "80,000 more characters are in the run's trajectories"
    )


def test_what_is_counted_is_what_the_page_holds(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, [([turn_of("<" * TEXT, "go", traced=False)] * 5, True)] * 12)
    shown = show_player(episodes_of(path))
    assert 0 < shown.episodes < 12
    assert sum(map(len, shown.parts)) < LIMIT + 10_000


def test_a_long_episode_is_shortened_and_keeps_nobody_out(tmp_path: Path) -> None:
    long = [turn_of("o" * TEXT, f"reply {k}", traced=False) for k in range(220)]
    short = ([turn_of("a", "b", traced=False)], True)
    path = write_evaluation(tmp_path, [(long, False), *[short] * 5])
    shown = show_player(episodes_of(path))
    assert (shown.episodes, shown.shortened, shown.left_out) == (6, 1, 0)
    (first, *_) = json.loads(re.findall(r'id="player-data">(.*?)</script>', "".join(shown.parts), re.DOTALL)[0])
    kept = len(first["turns"])
    assert 0 < kept < 220
    assert first["final"] == f"… {220 - kept} more turns are in the run's trajectories\n\nthe end"
    assert len(json.dumps(first)) < EPISODE


def test_failed_episodes_come_first_and_wanted_ones_before_them() -> None:
    rows = [{"key": f"{i:04}", "task": f"t{i}", "scored": i % 50 != 7, "success": i % 3 == 0} for i in range(300)]
    chosen = choose(rows, 12, wanted=["0123"])
    assert chosen[0]["key"] == "0123"
    kinds = ["broken" if not row["scored"] else "solved" if row["success"] else "failed" for row in chosen[1:]]
    assert kinds == sorted(kinds, key=["broken", "failed", "solved"].index)
    assert len(chosen) == 12 and {"broken", "failed", "solved"} == set(kinds)
    assert len(choose(rows[:3], 12)) == 3, "no more than there are"
    only = [row for row in rows if row["success"] and row["scored"]]
    assert len(choose(only, 12)) == 12, "where nothing failed, the room is for the others"


@given(st.lists(st.integers()), st.integers(1, 20))
def test_an_even_choice_keeps_order_and_ends(rows: list[int], limit: int) -> None:
    numbered = list(enumerate(rows))
    chosen = evenly(numbered, limit)
    assert chosen == sorted(chosen) and len(chosen) == min(limit, len(rows)) == len(set(chosen))
    if rows and limit > 1:
        assert (chosen[0], chosen[-1]) == (numbered[0], numbered[-1])
