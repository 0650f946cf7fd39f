"""The original's files: where they are, and what they say about each product."""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentbench.core.errors import UsageError
from agentbench_envs.webshop.goals import Kind, Wish, wishes_of
from agentbench_envs.webshop.products import Product, product_of
from agentbench_envs.webshop.stream import elements

SEED: Final = 0
"""Seeds the draws of prices and ceilings. The original does not; this seed gives those of the recorded runs."""

DRAWN: Final[dict[Kind, int]] = {"synthetic": 1, "human": 0}
"""32-bit words that the recorded runs had drawn before they loaded their catalogue."""


class Files(NamedTuple):
    """The files of a genuine catalogue."""

    products: Path
    attributes: Path
    human: Path | None


class Entry(NamedTuple):
    """A product with what shoppers say about it."""

    product: Product
    wishes: list[Wish]


def find_files(place: Path, goals: Kind) -> Files:
    """Find the files of a catalogue.

    Raises:
        UsageError: One is missing, or there are several.
    """
    products = place if place.is_file() else _only(place, "items_shuffle*.json")
    suffix = products.stem.removeprefix("items_shuffle")
    attributes = _beside(products, "items_ins_v2", suffix)
    return Files(products, attributes, _beside(products, "items_human_ins", suffix) if goals == "human" else None)


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        what = ", ".join(path.name for path in found) or "none"
        raise UsageError(f"expected one {pattern} in {folder}, found {what}; give the path of the file itself")
    return found[0]


def _beside(products: Path, stem: str, suffix: str) -> Path:
    for name in (f"{stem}{suffix}.json", f"{stem}.json"):
        if (products.parent / name).is_file():
            return products.parent / name
    return _only(products.parent, f"{stem}*.json")


def identity(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return an environment's arguments without what changes no task: where its files lie, and its cache.

    Raises:
        UsageError: A file is missing.
    """
    kept = {name: value for name, value in arguments.items() if name != "cache"}
    if kept.get("data") is not None:
        files = find_files(Path(str(kept["data"])).expanduser(), kept.get("goals", "synthetic"))
        hashes = [_hash(path, path.stat().st_size, path.stat().st_mtime_ns) for path in files if path is not None]
        kept["data"] = hashlib.sha256("".join(hashes).encode()).hexdigest()
    return kept


@cache
def _hash(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(files: Files, goals: Kind, limit: int | None) -> Iterator[Entry]:
    """Yield the products of a file with their wishes, each asin once.

    Args:
        files: Where to read.
        goals: Which wishes.
        limit: Take only the first entries; None takes all.
    """
    entries: dict[str, Any] = {}
    for entry in islice(elements(files.products), limit):
        entries.setdefault(entry["asin"], entry)
    attributes = {asin: body for asin, body in elements(files.attributes) if asin in entries}
    human = {} if files.human is None else json.loads(files.human.read_text(encoding="utf-8"))
    for asin, entry in entries.items():
        if is_sold(asin):
            yield entry_of(files, goals, entry, attributes.get(asin, {}), human.get(asin, []))


def entry_of(
    files: Files, goals: Kind, product: Mapping[str, Any], attributes: Mapping[str, Any], human: Sequence[Any]
) -> Entry:
    """Put together what the files say about a product.

    Args:
        files: Where it was read.
        goals: Which wishes.
        product: Its entry in the product file.
        attributes: Its entry in the file of attributes, empty if it has none.
        human: Its entry in the file of human goals, empty if it has none.

    Raises:
        UsageError: A wish names no attributes, by which goals are weighed.
    """
    wishes = wishes_of(goals, attributes, human)
    if not all(wish.attributes for wish in wishes):
        raise UsageError(f"{files.attributes}: {product['asin']} has an instruction, but no instruction_attributes")
    return Entry(product_of(product, attributes), wishes)


def is_sold(asin: str) -> bool:
    """Tell whether the original keeps an entry: its asin is one."""
    return asin != "nan" and len(asin) <= 10


def recorded_rng(goals: Kind) -> random.Random:
    """Return the generator that drew the prices and ceilings of the recorded runs."""
    rng = random.Random(SEED)
    for _ in range(DRAWN[goals]):
        rng.getrandbits(32)
    return rng
