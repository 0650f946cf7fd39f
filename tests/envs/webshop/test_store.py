"""A catalogue on disk is the one in memory, however often its making was interrupted."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agentbench_envs.webshop import build
from agentbench_envs.webshop.catalogue import load
from agentbench_envs.webshop.files import find_files
from agentbench_envs.webshop.goals import Kind
from agentbench_envs.webshop.shop import Stock, catalogue_hash, open_shop, synthetic
from agentbench_envs.webshop.splits import SPLITS, split_of
from agentbench_envs.webshop.stock import Catalogue
from agentbench_envs.webshop.store import load_store, open_store, synthetic_store
from agentbench_envs.webshop.stream import elements, scan
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import RecordError, UsageError
from agentbench.core.registry import resolve

QUERIES = ("wireless headphone", "lip balm for women", "console tables", "i am looking for a non slip storage ottoman")

BUILD = """
import sys
from pathlib import Path
from agentbench_envs.webshop import build
folder = Path(sys.argv[1])
build.ensure(folder, lambda: build.synthetic(folder, 1200, 3, batch=100))
"""


def same(one: Catalogue, other: Catalogue) -> bool:
    assert catalogue_hash(one) == catalogue_hash(other)
    return all(one.index.search(query) == other.index.search(query) for query in QUERIES)


def test_a_synthetic_store_holds_what_the_generator_makes(tmp_path: Path) -> None:
    stored, splits = synthetic_store(300, 7, tmp_path)
    assert same(stored, synthetic(300, 7))
    assert [SPLITS[number] for number in splits] == [split_of(goal) for goal in stored.goals]
    assert len(stored.products) == 300 and stored.goals[-1] == stored.goals[len(stored.goals) - 1]
    with pytest.raises(KeyError):
        stored.products["none"]


@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_a_store_of_files_has_the_goals_that_memory_has(shop_files: Path, tmp_path: Path, kind: Kind) -> None:
    stored = load_store(find_files(shop_files, kind), kind, tmp_path)
    assert same(stored, load(shop_files, goals=kind))


def test_small_batches_make_no_difference(shop_files: Path, tmp_path: Path) -> None:
    files = find_files(shop_files, "synthetic")
    build.ensure(tmp_path / "store", lambda: build.genuine(tmp_path / "store", files, "synthetic", batch=7))
    assert same(open_store(tmp_path / "store"), load(shop_files))


def test_a_build_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    killed = 0
    for blocks in (2, 6, 10):
        process = subprocess.Popen([sys.executable, "-c", BUILD, folder])
        while process.poll() is None and len(list(folder.glob("blocks/*.npz"))) < blocks:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed, "the build was over before it could be killed"
    subprocess.run([sys.executable, "-c", BUILD, folder], check=True)
    assert catalogue_hash(open_store(folder)) == catalogue_hash(synthetic(1200, 3))
    assert sorted(path.name for path in folder.iterdir()) == [
        "asked.json", "catalogue.sqlite", "goals.npy", "index", "lock", "ready", "splits.npy",
    ]  # fmt: skip


def test_threads_read_a_store_alike(tmp_path: Path) -> None:
    stored, _ = synthetic_store(200, 1, tmp_path)
    expected = synthetic(200, 1)
    asins = list(expected.products) * 5
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(stored.products.__getitem__, asins)) == [expected.products[asin] for asin in asins]
        found = list(threads.map(stored.index.search, QUERIES * 10))
    assert found == [expected.index.search(query) for query in QUERIES * 10]


def test_a_large_synthetic_shop_is_kept_in_the_folder_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected 10 to"):
        open_shop(Stock(products=3))
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        open_shop(Stock(products=6_000, cache=str(tmp_path / "file")))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(
    st.lists(JSON, max_size=6) | st.dictionaries(st.text(max_size=5), JSON, max_size=6),
    st.integers(1, 40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_a_file_is_read_in_pieces_as_in_one(
    tmp_path_factory: pytest.TempPathFactory, value: Any, chunk: int, indent: int | None, ascii_only: bool
) -> None:
    path = tmp_path_factory.mktemp("stream") / "file.json"
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=ascii_only), encoding="utf-8", errors="surrogatepass")
    expected = list(value.items()) if isinstance(value, Mapping) else value
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # a lone surrogate is no UTF-8
    found = list(scan(path, chunk=chunk))
    assert [element.value for element in found] == expected
    for number, element in enumerate(found):
        assert [rest.value for rest in scan(path, element.end, chunk=chunk)] == expected[number + 1 :]


@pytest.mark.parametrize("text", ["", "3", '"text"', "[1, 2", '{"a": 1', "[1, }", "nonsense"])
def test_what_is_no_list_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "items_shuffle.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"items_shuffle\.json"):
        list(elements(path))


def test_missing_and_ambiguous_files_are_named(tmp_path: Path, shop_files: Path) -> None:
    with pytest.raises(UsageError, match=r"expected one items_shuffle\*\.json in .*, found none"):
        load(tmp_path)
    for name in ("items_shuffle.json", "items_shuffle_1000.json"):
        (tmp_path / name).write_text((shop_files / "items_shuffle.json").read_text())
    with pytest.raises(UsageError, match=r"found items_shuffle\.json, items_shuffle_1000\.json; give the path"):
        load(tmp_path)
    with pytest.raises(UsageError, match="items_ins_v2"):
        load(tmp_path / "items_shuffle.json")
    (tmp_path / "items_ins_v2_1000.json").write_text((shop_files / "items_ins_v2.json").read_text())
    assert len(load(tmp_path / "items_shuffle_1000.json", limit=50).products) == 50
    with pytest.raises(UsageError, match="expected 'synthetic' or 'human'"):
        load(shop_files, goals="all")  # type: ignore[arg-type]


def test_an_asin_is_sold_once_and_only_if_it_is_one(shop_files: Path, tmp_path: Path) -> None:
    entries = json.loads((shop_files / "items_shuffle.json").read_text())[:30]
    odd = [{**entries[3], "name": "again"}, {**entries[0], "asin": "nan"}, {**entries[0], "asin": "B0123456789"}]
    (tmp_path / "items_shuffle.json").write_text(json.dumps(entries[:10] + odd + entries[10:]))
    (tmp_path / "items_ins_v2.json").write_text((shop_files / "items_ins_v2.json").read_text())
    loaded = load(tmp_path)
    assert list(loaded.products) == [entry["asin"] for entry in entries]
    assert loaded.products[entries[3]["asin"]]["Title"] == entries[3]["name"]
    assert same(load_store(find_files(tmp_path, "synthetic"), "synthetic", tmp_path / "cache"), loaded)
    assert list(load(tmp_path, limit=12).products) == [entry["asin"] for entry in entries[:10]]


def test_odd_entries_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "asin": "B001", "name": "Lamp", "full_description": None, "small_description": None, "pricing": "call us",
        "customization_options": {"Color": None, "Size": [{"value": " S/M "}]}, "query": " Lamps ", "images": [],
        "category": "garden", "product_category": "Home › Lamps",
    }  # fmt: skip
    (tmp_path / "items_shuffle.json").write_text(json.dumps([odd, {**odd, "asin": "B002", "pricing": "$1,299.50 $7"}]))
    (tmp_path / "items_ins_v2.json").write_text("{}")
    first, second = load(tmp_path).products.values()
    assert (first["Description"], first["BulletPoints"], first["options"]) == ("", [""], {"size": ["s | m"]})
    assert (first["Price"], first["pricing"], first["query"], first["Attributes"]) == (
        "$100.0", [100.0], "lamps", ["DUMMY_ATTR"],
    )  # fmt: skip
    assert (second["Price"], second["pricing"]) == ("$1299.5 to $7.0", [1299.5, 7.0])


def test_entries_in_another_format_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "items_shuffle.json").write_text('[{"name": "no asin"}]')
    (tmp_path / "items_ins_v2.json").write_text("{}")
    with pytest.raises(UsageError, match="not in WebShop's format: KeyError: 'asin'"):
        load(tmp_path)


@pytest.mark.parametrize("without", [{}, {"instruction_attributes": []}, {"instruction_attributes": None}])
def test_a_wish_without_attributes_is_refused_by_name(
    shop_files: Path, tmp_path: Path, without: dict[str, Any]
) -> None:
    said = json.loads((shop_files / "items_ins_v2.json").read_text())
    asin = next(asin for asin, entry in said.items() if entry.get("instruction") is not None)
    said[asin] = {name: said[asin][name] for name in ("instruction", "attributes")} | without
    (tmp_path / "items_ins_v2.json").write_text(json.dumps(said))
    shutil.copy(shop_files / "items_shuffle.json", tmp_path)
    refusal = rf"items_ins_v2\.json: {asin} has an instruction, but no"
    with pytest.raises(UsageError, match=refusal):
        load(tmp_path)
    with pytest.raises(UsageError, match=refusal):
        load_store(find_files(tmp_path, "synthetic"), "synthetic", tmp_path / "cache")


def test_the_same_files_elsewhere_are_the_same_panel(shop_files: Path, tmp_path: Path) -> None:
    shutil.copytree(shop_files, tmp_path / "copy")

    def digest(folder: Path, **arguments: Any) -> str:
        return resolve("webshop/original", data=str(folder), **arguments).digest

    before = digest(shop_files)
    assert digest(tmp_path / "copy") == digest(tmp_path / "copy" / "items_shuffle.json") == before
    assert digest(tmp_path / "copy", cache=str(tmp_path)) == before != digest(tmp_path / "copy", goals="human")
    with (tmp_path / "copy" / "items_shuffle.json").open("a") as file:
        file.write("\n")
    assert digest(tmp_path / "copy") != before
    with pytest.raises(UsageError, match="found none"):
        digest(tmp_path)
