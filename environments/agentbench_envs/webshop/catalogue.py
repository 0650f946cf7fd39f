"""Loads a catalogue in the original's file formats.

What fits into memory is read anew each time (a thousand products take a fraction of a second); a larger file is
streamed once into a store on disk (`store`), from which products are fetched one by one.
"""

import functools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from agentbench.core.errors import UsageError
from agentbench_envs.webshop.files import Entry, find_files, read, recorded_rng
from agentbench_envs.webshop.goals import Kind, draw_ceiling, draw_price, goals_of, shuffled_order, weigh
from agentbench_envs.webshop.products import Goal, document
from agentbench_envs.webshop.search import SearchIndex
from agentbench_envs.webshop.stock import Catalogue
from agentbench_envs.webshop.store import load_store

LARGE: Final = 50_000_000
"""Bytes of a product file above which it is read into a store on disk."""


def load(
    folder: str | Path, *, goals: Kind = "synthetic", limit: int | None = None, cache: Path | None = None
) -> Catalogue:
    """Load a catalogue in the original's file formats.

    Args:
        folder: Holds `items_shuffle*.json`, `items_ins_v2*.json` and, for human goals, `items_human_ins*.json`; or the
            path of the product file, whose neighbours are taken.
        goals: Which goals to make.
        limit: Take only the first entries of the product file, as the original's `num_products`.
        cache: Where stores of large files are kept; None is the user's cache folder.

    Raises:
        UsageError: A file is missing, is there more than once, or is not what it should be.
    """
    if goals not in ("synthetic", "human"):
        raise UsageError(f"found goals {goals!r}, expected 'synthetic' or 'human'")
    files = find_files(Path(folder).expanduser(), goals)
    if files.products.stat().st_size > LARGE and limit is None:
        return load_store(files, goals, cache)
    try:
        loaded = stock(list(read(files, goals, limit)), goals, recorded_rng(goals))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(
            f"{files.products} and {files.attributes} are not in WebShop's format: {type(error).__name__}: {error}"
        ) from error
    if goals == "human":
        return loaded
    return replace(loaded, more_goals=functools.cache(lambda: _human(files.products, limit)))


def _human(products: Path, limit: int | None) -> Sequence[Goal]:
    """Return the goals of people for the same products, none where there is no file of them."""
    try:
        return load(products, goals="human", limit=limit).goals
    except UsageError:
        return ()


def stock(entries: Iterable[Entry], kind: Kind, rng: random.Random) -> Catalogue:
    """Make a catalogue of products and wishes as the original does: prices first, then ceilings, then the order."""
    entries = list(entries)
    products = {entry.product["asin"]: entry.product for entry in entries}
    prices = {asin: draw_price(product, rng) for asin, product in products.items()}
    made = [
        goal
        for product, wishes in entries
        for wish in wishes
        for goal in goals_of(product, wish, draw_ceiling(prices[product["asin"]], rng))
    ]
    weigh(made, kind)
    index = SearchIndex([(asin, document(product)) for asin, product in products.items()])
    return Catalogue(products, prices, [made[number] for number in shuffled_order(len(made))], index)
