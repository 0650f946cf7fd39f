"""Which goal an episode has: catalogue, split and seed decide, and nothing else.

A catalogue is opened once per process and shared by all environments; it never changes. The goals of a split are a
finite list, taken in order and modulo its length.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from agentbench.core.errors import UsageError
from agentbench_envs.webshop.catalogue import load
from agentbench_envs.webshop.generate import generate, nouns
from agentbench_envs.webshop.goals import Kind
from agentbench_envs.webshop.products import document
from agentbench_envs.webshop.search import SearchIndex
from agentbench_envs.webshop.splits import SPLITS, by_content, original_splits, split_of
from agentbench_envs.webshop.stock import Catalogue
from agentbench_envs.webshop.store import synthetic_store

IN_MEMORY: Final = 5_000
"""Synthetic products above which the catalogue is kept on disk."""

MOST_PRODUCTS: Final = 2_000_000

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Stock:
    """What decides a shop."""

    products: int = 1000
    """Synthetic products; of genuine ones, how many to take, 0 for all."""
    seed: int = 0
    data: str | None = None
    """Folder or file of a genuine catalogue."""
    goals: Kind = "synthetic"
    cache: str | None = None
    """Where large catalogues are kept; None is the user's cache folder."""


@dataclass(frozen=True, slots=True)
class Shop:
    """A catalogue, and which of its goals belong to which split."""

    catalogue: Catalogue
    splits: dict[str, Sequence[int]]

    def tasks(self, split: str) -> Sequence[int]:
        """Return the goals of a split.

        Raises:
            UsageError: There is no such split, or it is empty.
        """
        if split not in self.splits:
            raise UsageError(f"found split {split!r}, expected train, valid or test")
        if not len(self.splits[split]):
            raise UsageError(f"none of the catalogue's {len(self.catalogue.goals)} goals belongs to split {split!r}")
        return self.splits[split]


def open_shop(stock: Stock) -> Shop:
    """Return the shop of these settings; the first call of a process opens it.

    Raises:
        UsageError: The settings make no sense, or files are missing or wrong.
    """
    with _lock:
        return _open(stock)


@cache
def _open(stock: Stock) -> Shop:
    folder = None if stock.cache is None else Path(stock.cache).expanduser()
    if stock.data is not None:
        catalogue = load(stock.data, goals=stock.goals, limit=stock.products or None, cache=folder)
        return Shop(catalogue, original_splits(catalogue.goals))
    if not 10 <= stock.products <= MOST_PRODUCTS:
        raise UsageError(f"found {stock.products} products, expected 10 to {MOST_PRODUCTS:,}")
    if stock.products <= IN_MEMORY:
        catalogue = synthetic(stock.products, stock.seed)
        return Shop(catalogue, by_content([SPLITS.index(split_of(goal)) for goal in catalogue.goals]))
    catalogue, splits = synthetic_store(stock.products, stock.seed, folder)
    return Shop(catalogue, by_content(splits))


def synthetic(count: int, seed: int = 0) -> Catalogue:
    """Return a synthetic catalogue, in memory."""
    made = list(generate(count, seed))
    products = {each.product["asin"]: each.product for each in made}
    prices = {each.product["asin"]: each.price for each in made}
    index = SearchIndex([(asin, document(product)) for asin, product in products.items()])
    return Catalogue(products, prices, [goal for each in made for goal in each.goals], index, nouns)


def catalogue_hash(catalogue: Catalogue) -> str:
    """Return a hash of everything a catalogue holds: products, prices and goals, in order."""
    digest = hashlib.sha256()
    for asin, product in catalogue.products.items():
        digest.update(json.dumps([product, catalogue.prices[asin]]).encode())
    for goal in catalogue.goals:
        digest.update(json.dumps(goal).encode())
    return digest.hexdigest()
