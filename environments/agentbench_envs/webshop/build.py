"""Makes a catalogue on disk: streamed, in steps that can be interrupted anywhere and go on where they were.

Products are read in batches. A batch's terms are written to a file of their own, then its rows and the place in the
source are committed together, so whatever survives a kill is a whole number of batches. Index and goals are made from
that in the end, and a store counts only once its `ready` file is there. A lock on the folder keeps two processes from
building the same store; the later one waits, then uses it.
"""

import fcntl
import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agentbench.core.errors import RecordError
from agentbench_envs.webshop.files import Files, entry_of, is_sold, recorded_rng
from agentbench_envs.webshop.generate import generate
from agentbench_envs.webshop.goals import Kind, Wish, draw_ceiling, draw_price, goals_of, shuffled_order
from agentbench_envs.webshop.postings import Postings, collect, merge
from agentbench_envs.webshop.products import Product, document
from agentbench_envs.webshop.search import SearchIndex, damping
from agentbench_envs.webshop.splits import SPLITS, split_of
from agentbench_envs.webshop.stream import scan

BATCH: Final = 10_000
"""Products that are read, indexed and committed at once."""

_TABLES = """
CREATE TABLE IF NOT EXISTS products (number INTEGER PRIMARY KEY, asin TEXT UNIQUE, body TEXT, price REAL, said TEXT);
CREATE TABLE IF NOT EXISTS attributes (asin TEXT PRIMARY KEY, body TEXT);
CREATE TABLE IF NOT EXISTS progress (step TEXT PRIMARY KEY, place INTEGER, batches INTEGER);
"""

Advance = Callable[[int], None]
"""Tells a progress bar where a step is."""


class Row(NamedTuple):
    """A product on its way into the store."""

    product: Product
    price: float | None
    """None: drawn at the end."""
    said: list[Any]
    """Wishes, or whole goals."""
    place: int
    """Where the source goes on behind it."""


def ensure(folder: Path, make: Callable[[], None]) -> None:
    """Build a store unless it is there.

    Raises:
        RecordError: It cannot be written: disk full, folder read-only.
    """
    if (folder / "ready").is_file():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            if not (folder / "ready").is_file():
                make()
                shutil.rmtree(folder / "blocks", ignore_errors=True)
                (folder / "ready").touch()
    except (OSError, sqlite3.OperationalError) as error:
        raise RecordError(f"the catalogue in {folder} cannot be written: {error}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def synthetic(folder: Path, count: int, seed: int, *, batch: int = BATCH) -> None:
    """Build the store of a synthetic catalogue."""
    with closing(_connect(folder)) as database:

        def rows(place: int) -> Iterator[Row]:
            made = islice(generate(count, seed), place, None)
            return (Row(each.product, each.price, list(each.goals), at) for at, each in enumerate(made, place + 1))

        _products(folder, database, rows, total=count, batch=batch)
        table = [
            (number, part, 0)
            for number, said in database.execute("SELECT number, said FROM products ORDER BY number")
            for part in range(len(json.loads(said)))
        ]
        _save(folder / "goals.npy", np.array(table, np.int32).reshape(-1, 3))
        _save(folder / "splits.npy", np.array(list(_splits(database)), np.int8))
        _write(folder / "asked.json", {})
        _index(folder, database)


def _splits(database: sqlite3.Connection) -> Iterator[int]:
    for (said,) in database.execute("SELECT said FROM products ORDER BY number"):
        yield from (SPLITS.index(split_of(goal)) for goal in json.loads(said))


def genuine(folder: Path, files: Files, goals: Kind, *, batch: int = BATCH) -> None:
    """Build the store of a genuine catalogue, with the goals that `catalogue.load` would give it in memory."""
    human = {} if files.human is None else json.loads(files.human.read_text(encoding="utf-8"))
    with closing(_connect(folder)) as database:
        _attributes(database, files.attributes, batch)

        def rows(place: int) -> Iterator[Row]:
            for entry, end in scan(files.products, place):
                if is_sold(entry["asin"]):
                    found = database.execute("SELECT body FROM attributes WHERE asin = ?", [entry["asin"]]).fetchone()
                    said = json.loads(found[0]) if found else {}
                    product, wishes = entry_of(files, goals, entry, said, human.get(entry["asin"], []))
                    yield Row(product, None, [{"wish": wish} for wish in wishes], end)

        _products(folder, database, rows, total=files.products.stat().st_size, batch=batch)
        _goals(folder, database, goals, recorded_rng(goals))
        _index(folder, database)


def _connect(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "catalogue.sqlite")
    database.executescript(_TABLES)
    return database


def _attributes(database: sqlite3.Connection, path: Path, batch: int) -> None:
    """Copy the file of attributes into a table, from which they are looked up."""
    place, batches = _place(database, "attributes")
    with _progress("attributes", path.stat().st_size, place) as advance:
        entries = scan(path, place)
        while part := list(islice(entries, batch)):
            values = [(asin, json.dumps(body)) for (asin, body), _ in part]
            database.executemany("INSERT OR REPLACE INTO attributes VALUES (?, ?)", values)
            batches += 1
            _commit(database, "attributes", part[-1].end, batches)
            advance(part[-1].end)


def _products(
    folder: Path, database: sqlite3.Connection, rows: Callable[[int], Iterator[Row]], *, total: int, batch: int
) -> None:
    """Read products, batch by batch, from where an earlier attempt was stopped."""
    (folder / "blocks").mkdir(exist_ok=True)
    place, batches = _place(database, "products")
    with _progress("products", total, place) as advance:
        source = rows(place)
        while part := list(islice(source, batch)):
            kept = [row for row in part if _insert(database, row)]
            collect(document(row.product) for row in kept).save(folder / "blocks" / f"{batches:06}.npz")
            batches += 1
            _commit(database, "products", part[-1].place, batches)
            advance(part[-1].place)


def _insert(database: sqlite3.Connection, row: Row) -> bool:
    """Insert a product unless its asin is there already."""
    values = (row.product["asin"], json.dumps(row.product), row.price, json.dumps(row.said))
    inserted = database.execute("INSERT OR IGNORE INTO products (asin, body, price, said) VALUES (?, ?, ?, ?)", values)
    return inserted.rowcount == 1


def _place(database: sqlite3.Connection, step: str) -> tuple[int, int]:
    found = database.execute("SELECT place, batches FROM progress WHERE step = ?", [step]).fetchone()
    return (0, 0) if found is None else (found[0], found[1])


def _commit(database: sqlite3.Connection, step: str, place: int, batches: int) -> None:
    database.execute("INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", [step, place, batches])
    database.commit()


def _goals(folder: Path, database: sqlite3.Connection, kind: Kind, rng: random.Random) -> None:
    """Draw prices, then ceilings, and number the goals, all in the original's order; done as a whole or not at all."""
    for number, body in _each(database, "body"):
        database.execute("UPDATE products SET price = ? WHERE number = ?", [draw_price(json.loads(body), rng), number])
    asked: Counter[str] = Counter()
    table: list[tuple[int, int, int]] = []
    for number, body, price, text in _each(database, "body, price, said", "said != '[]'"):
        said = json.loads(text)
        for part, entry in enumerate(said):
            entry["ceiling"] = draw_ceiling(price, rng)
            goals = goals_of(json.loads(body), Wish(*entry["wish"]), entry["ceiling"])
            table += [(number, part, combination) for combination in range(len(goals))]
            asked.update(attribute for goal in goals for attribute in goal["attributes"])
        database.execute("UPDATE products SET said = ? WHERE number = ?", [json.dumps(said), number])
    order = np.array(shuffled_order(len(table)), np.int64)
    _save(folder / "goals.npy", np.array(table, np.int32).reshape(-1, 3)[order])
    _write(folder / "asked.json", dict(asked) if kind == "synthetic" else {})
    database.commit()


def _each(database: sqlite3.Connection, columns: str, where: str = "1") -> Iterator[tuple[Any, ...]]:
    """Yield rows of the product table in order, the number first, while rows behind are being changed."""
    query = f"SELECT number, {columns} FROM products WHERE number > ? AND {where} ORDER BY number LIMIT 1000"
    last = 0
    while rows := database.execute(query, [last]).fetchall():
        yield from rows
        last = rows[-1][0]


def _index(folder: Path, database: sqlite3.Connection) -> None:
    """Merge the batches' terms into the index, in a folder that is renamed when it is whole."""
    draft, final = folder / "index.part", folder / "index"
    if final.is_dir():
        return
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()

    def on_disk(name: str, size: int, kind: Any) -> npt.NDArray[Any]:
        return np.lib.format.open_memmap(draft / f"{name}.npy", mode="w+", dtype=kind, shape=(size,))

    postings = merge(sorted((folder / "blocks").glob("*.npz")), on_disk)
    arrays = {**postings.arrays, "damping": on_disk("damping", len(postings.arrays["documents"]), np.float32)}
    damping(postings, arrays["damping"])
    (draft / "counts.npy").unlink()
    del arrays["counts"]
    names = np.array([asin for (asin,) in database.execute("SELECT asin FROM products ORDER BY number")], np.str_)
    SearchIndex.of(names, Postings(arrays)).save(draft)
    draft.rename(final)


def _save(path: Path, values: npt.NDArray[Any]) -> None:
    """Write an array; a file that is there is a whole one."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        np.save(file, values)
    os.replace(file.name, path)  # noqa: PTH105


def _write(path: Path, value: Any) -> None:
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(value), encoding="utf-8")
    draft.replace(path)


@contextmanager
def _progress(what: str, total: int, place: int) -> Iterator[Advance]:
    """Show a bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    screen = Console(stderr=True)
    columns = (TextColumn(f"webshop: {what}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=total, completed=place)
        yield lambda now: bar.update(task, completed=now)
