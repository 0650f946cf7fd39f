"""The index ranks as the formula says, however it was made and wherever it is kept."""

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from agentbench_envs.webshop import search
from agentbench_envs.webshop.analysis import terms
from agentbench_envs.webshop.generate import generate
from agentbench_envs.webshop.porter import stem
from agentbench_envs.webshop.postings import Block, collect, merge
from agentbench_envs.webshop.products import document
from agentbench_envs.webshop.search import SearchIndex, lossy
from hypothesis import given
from hypothesis import strategies as st

WORDS = ["red", "blue", "shoe", "shoes", "lamp", "size", "10.5", "the", "with", "women's", "table", "tables"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), min_size=1, max_size=12)


def brute_force(documents: list[tuple[str, str]], query: str, k: int = 50) -> list[tuple[str, float]]:
    """BM25 written down, in double precision, with lengths as Lucene keeps them."""
    counted = {name: Counter(terms(text)) for name, text in documents}
    filled = sum(bool(counts) for counts in counted.values())
    mean = sum(sum(counts.values()) for counts in counted.values()) / max(1, filled)
    scores: dict[str, float] = {}
    for term, times in Counter(terms(query)).items():
        holders = [name for name, counts in counted.items() if term in counts]
        idf = math.log(1 + (filled - len(holders) + 0.5) / (len(holders) + 0.5)) if holders else 0.0
        for name in holders:
            length = int(lossy(np.array([sum(counted[name].values())], np.int32))[0])
            norm = 0.9 * (0.6 + 0.4 * length / mean)
            count = counted[name][term]
            scores[name] = scores.get(name, 0.0) + times * idf * count / (count + norm)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


@given(TEXTS, st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), st.integers(1, 5))
def test_scores_are_bm25(texts: list[str], query: str, k: int) -> None:
    documents = [(f"B{number:03}", text) for number, text in enumerate(texts)]
    found = SearchIndex(documents).search(query, k)
    expected = dict(brute_force(documents, query))
    assert len(found) == min(k, len(expected))
    assert all(abs(score - expected[name]) < 1.1e-4 + 1e-6 * len(texts) for name, score in found)
    least_left_out = max([score for name, score in expected.items() if name not in dict(found)], default=0.0)
    assert all(expected[name] >= least_left_out - 1e-6 for name, _ in found)


def test_equal_scores_are_ordered_by_name_and_shown_apart() -> None:
    found = SearchIndex([("b", "red shoe"), ("c", "blue lamp"), ("a", "red shoe")]).search("red")
    assert [name for name, _ in found] == ["a", "b"]
    assert found[0][1] > found[1][1]


def test_looking_up_common_terms_changes_no_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [(each.product["asin"], document(each.product)) for each in generate(3000, seed=5)]
    index = SearchIndex(documents)
    for query in (
        "red lace wig for women ideal",
        "comfortable durable choice for women ideal and travel",
        "herbal tea",
    ):
        expected = brute_force(documents, query)
        found = index.search(query)
        assert [name for name, _ in found[:10]] == [name for name, _ in expected[:10]]
        assert all(abs(mine[1] - theirs[1]) < 2e-4 for mine, theirs in zip(found, expected, strict=True))
        for length, worth in ((0, 1), (0, 1000), (10**9, 8)):
            monkeypatch.setattr(search, "LONG_LIST", length)
            monkeypatch.setattr(search, "WORTH", worth)
            assert index.search(query) == found, "looked up early, at once, or never: the same to the last bit"
        monkeypatch.undo()


def test_an_index_on_disk_finds_the_same(tmp_path: Path) -> None:
    documents = [(each.product["asin"], document(each.product)) for each in generate(300, seed=1)]
    index = SearchIndex(documents)
    index.save(tmp_path / "index")
    opened = SearchIndex.open(tmp_path / "index")
    for query in ("wireless headphone", "women", "nothing of this", "", "long lasting lip balm"):
        assert opened.search(query) == index.search(query)
    assert len(opened) == len(index) == 300


@given(TEXTS, st.integers(1, 5))
def test_blocks_merge_into_what_one_block_holds(texts: list[str], size: int) -> None:
    whole = merge([collect(texts)])
    blocks = [collect(texts[start : start + size]) for start in range(0, len(texts), size)]
    merged = merge(blocks)
    assert merged.arrays.keys() == whole.arrays.keys()
    assert all(np.array_equal(merged.arrays[name], whole.arrays[name]) for name in whole.arrays)


def test_a_block_survives_its_file(tmp_path: Path) -> None:
    block = collect(["red shoe", "", "\ud800 odd"])
    block.save(tmp_path / "block.npz")
    loaded = Block.load(tmp_path / "block.npz")
    assert loaded.terms == block.terms
    for name in ("sizes", "documents", "counts", "lengths"):
        assert np.array_equal(getattr(loaded, name), getattr(block, name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The women's shoes", ["women", "shoe"]),
        ("size 10.5, 3,000 pieces", ["size", "10.5", "3,000", "piec"]),
        ('32"wx48"h', ["32", "wx48", "h"]),
        ("don't a:b u.s.a.", ["don't", "a:b", "u.s.a"]),
        ("漢字 ひら カタカナ", ["漢", "字", "ひ", "ら", "カタカナ"]),
        ("so 😀 nice 👍🏽", ["so", "😀", "nice", "👍🏽"]),
        ("¼ ²", []),
        ("of the and", []),
        ("x" * 300, ["x" * 255, "x" * 45]),
        ("", []),
    ],
)
def test_words_become_terms_as_in_lucene(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # Porter 1980, tables of steps 1 to 5.
        *[("caresses", "caress"), ("ponies", "poni"), ("feed", "feed"), ("agreed", "agre"), ("plastered", "plaster")],
        *[("motoring", "motor"), ("conflated", "conflat"), ("hopping", "hop"), ("falling", "fall"), ("filing", "file")],
        *[("happy", "happi"), ("sky", "sky"), ("relational", "relat"), ("rational", "ration"), ("digitizer", "digit")],
        *[("vietnamization", "vietnam"), ("sensibiliti", "sensibl"), ("triplicate", "triplic"), ("hopeful", "hope")],
        *[("replacement", "replac"), ("adoption", "adopt"), ("probate", "probat"), ("rate", "rate"), ("roll", "roll")],
        # Martin Porter's departures.
        *[("technology", "technolog"), ("assembly", "assembl"), ("be", "be"), ("as", "as")],
    ],
)
def test_stems_are_porters(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_lengths_are_kept_with_four_bits() -> None:
    given_lengths = np.array([0, 1, 39, 40, 41, 56, 57, 100, 1000], np.int32)
    assert lossy(given_lengths).tolist() == [0, 1, 39, 40, 40, 56, 56, 96, 984]


def takes_linear_time(work: Callable[[list[str]], object], words: list[str]) -> bool:
    """Tell whether an eighth of the words takes nearer to 1/8 than to 1/64 of the time; a busy machine tries again."""

    def seconds(words: list[str]) -> float:
        begin = time.process_time()
        work(words)
        return time.process_time() - begin

    return any(seconds(words) < 24 * seconds(words[: len(words) // 8]) for _ in range(5))


KINDS = "a1_'., #\u0301\u200d\ufe0f\u20e3一カก😀\U0001f1e6"
"""A character of each kind that decides where words end."""


def test_no_text_takes_more_than_linear_time_to_cut(scale: float) -> None:
    for pair in map("".join, itertools.product(KINDS, repeat=2)):
        assert takes_linear_time(lambda pairs: terms("".join(pairs)), [pair] * round(4000 * scale)), pair


def test_many_terms_take_linear_time_to_search_for() -> None:
    words = [f"q{number}" for number in range(4000)]
    index = SearchIndex([(f"B{start}", " ".join(words[start : start + 10])) for start in range(0, 4000, 10)])
    assert takes_linear_time(lambda words: index.search(" ".join(words)), words)


@given(st.text(max_size=200))
def test_any_text_can_be_searched_for(text: str) -> None:
    index = SearchIndex([("a", "red shoe"), ("b", text)])
    assert {name for name, _ in index.search(text)} <= {"a", "b"}
