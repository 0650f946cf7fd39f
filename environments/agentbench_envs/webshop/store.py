"""A catalogue on disk: products in sqlite, the index and the list of goals memory-mapped.

    catalogue.sqlite   products, one row each, with price and wishes (or, of a synthetic catalogue, goals)
    index/             the search index
    goals.npy          [goal, 3] product, wish and combination of options, in the order in which goals are numbered
    splits.npy         [goal] the split of each goal, where splits go by content
    asked.json         how many goals ask for an attribute, for the weights
    ready              written last: a store that has it is whole

`build` makes it. Products and goals are read one by one, and the most recent ones kept.
"""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, overload

import numpy as np

from agentbench_envs.webshop import build
from agentbench_envs.webshop.files import Files
from agentbench_envs.webshop.generate import VERSION, nouns
from agentbench_envs.webshop.goals import Kind, Wish, goals_of
from agentbench_envs.webshop.products import Goal, Product
from agentbench_envs.webshop.search import SearchIndex
from agentbench_envs.webshop.stock import Catalogue, Tagger, every_word

FORMAT: Final = 1
"""Grows when stores of an earlier version cannot be read any more."""

KEPT: Final = 4096
"""Products, and goals, that stay in memory."""


def cache_folder(chosen: Path | None) -> Path:
    """Return where stores are kept: the chosen folder, `AGENTBENCH_CACHE`, or the user's cache."""
    if chosen is not None:
        return chosen
    home = os.environ.get("AGENTBENCH_CACHE")
    if home:
        return Path(home) / "webshop"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentbench" / "webshop"


def load_store(files: Files, goals: Kind, cache: Path | None) -> Catalogue:
    """Open the store of a genuine catalogue, built first if it is not there yet."""
    stamp = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in files if path is not None]
    key = hashlib.sha256(json.dumps([FORMAT, goals, stamp]).encode()).hexdigest()[:12]
    folder = cache_folder(cache) / f"{files.products.stem}-{goals}-{key}"
    build.ensure(folder, lambda: build.genuine(folder, files, goals))
    return open_store(folder)


def synthetic_store(count: int, seed: int, cache: Path | None) -> tuple[Catalogue, Sequence[int]]:
    """Open the store of a synthetic catalogue, built first if it is not there yet; return the goals' splits with it."""
    folder = cache_folder(cache) / f"synthetic-{count}-{seed}-v{VERSION}.{FORMAT}"
    build.ensure(folder, lambda: build.synthetic(folder, count, seed))
    return open_store(folder, nouns), np.load(folder / "splits.npy", mmap_mode="r")


def open_store(folder: Path, tagger: Tagger = every_word) -> Catalogue:
    """Open a store that is whole."""
    rows = _Rows(folder / "catalogue.sqlite")
    return Catalogue(
        StoredProducts(rows), StoredPrices(rows), StoredGoals(rows, folder), SearchIndex.open(folder / "index"), tagger
    )


class _Rows:
    """Reads the product table; safe to share between threads, and to inherit by a fork."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._process = -1
        self._connection: sqlite3.Connection | None = None
        self.by_asin = lru_cache(maxsize=KEPT)(self._by_asin)
        self.by_number = lru_cache(maxsize=KEPT)(self._by_number)

    def ask(self, query: str, *values: Any) -> list[Any]:
        with self._lock:
            if self._process != os.getpid():
                address = f"{self._path.resolve().as_uri()}?mode=ro"
                self._connection = sqlite3.connect(address, uri=True, check_same_thread=False)
                self._process = os.getpid()
            assert self._connection is not None
            return self._connection.execute(query, values).fetchall()

    def _by_asin(self, asin: str) -> tuple[Product, float]:
        for body, price in self.ask("SELECT body, price FROM products WHERE asin = ?", asin):
            return json.loads(body), price
        raise KeyError(asin)

    def _by_number(self, number: int) -> tuple[Product, Any]:
        for body, said in self.ask("SELECT body, said FROM products WHERE number = ?", number):
            return json.loads(body), json.loads(said)
        raise IndexError(number)

    def __len__(self) -> int:
        return int(self.ask("SELECT count(*) FROM products")[0][0])

    def asins(self) -> Iterator[str]:
        """Yield all names in order."""
        return (asin for (asin,) in self.ask("SELECT asin FROM products ORDER BY number"))


class StoredProducts(Mapping[str, Product]):
    """Products by asin."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    def __getitem__(self, asin: str) -> Product:
        return self._rows.by_asin(asin)[0]

    def __iter__(self) -> Iterator[str]:
        return self._rows.asins()

    def __len__(self) -> int:
        return len(self._rows)


class StoredPrices(Mapping[str, float]):
    """Prices by asin."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    def __getitem__(self, asin: str) -> float:
        return self._rows.by_asin(asin)[1]

    def __iter__(self) -> Iterator[str]:
        return self._rows.asins()

    def __len__(self) -> int:
        return len(self._rows)


class StoredGoals(Sequence[Goal]):
    """Goals by number, put together from the product, the wish and the combination of options when asked for."""

    def __init__(self, rows: _Rows, folder: Path) -> None:
        self._rows = rows
        self._table = np.load(folder / "goals.npy", mmap_mode="r")
        self._asked: dict[str, int] = json.loads((folder / "asked.json").read_text(encoding="utf-8"))

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, number: int) -> Goal: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Goal]: ...
    def __getitem__(self, number: int | slice) -> Goal | Sequence[Goal]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        place, part, combination = self._table[number].tolist()
        product, said = self._rows.by_number(place)
        if "instruction_text" in said[part]:
            goal: Goal = said[part]
            return goal
        wish, ceiling = said[part]["wish"], said[part]["ceiling"]
        goal = goals_of(product, Wish(*wish), ceiling)[combination]
        if self._asked:
            rarity = [1.0 / self._asked[attribute] for attribute in goal["attributes"]]
            goal["weight"] = sum(rarity) / len(rarity)
        return goal
