"""Which documents hold which terms: counted in blocks, merged into lists that can be memory-mapped.

A block is what fits into memory at once (single-pass in-memory indexing, Manning et al. 2008, section 4.3). Blocks of
neighbouring documents are merged by concatenating their lists, so a catalogue of any size is indexed in the memory of
one block, and a catalogue that fits is simply one block.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agentbench_envs.webshop.analysis import term, words

Ints = npt.NDArray[np.int32]
Allocate = Callable[[str, int, Any], npt.NDArray[Any]]


class Block(NamedTuple):
    """The counted terms of some documents."""

    terms: list[str]
    """Sorted."""
    sizes: npt.NDArray[np.int64]
    """Documents of each term."""
    documents: Ints
    """The terms' lists one after another, each ascending; numbers count from the block's first document."""
    counts: Ints
    """How often the term stands in that document."""
    lengths: Ints
    """Terms of each document."""

    def save(self, path: Path) -> None:
        """Write the block; a file that is there is a whole one."""
        draft = path.with_suffix(".part")
        with draft.open("wb") as file:
            np.savez(file, terms=np.frombuffer(json.dumps(self.terms).encode(), np.uint8), sizes=self.sizes,
                     documents=self.documents, counts=self.counts, lengths=self.lengths)  # fmt: skip
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Block":
        """Read a block."""
        with np.load(path) as saved:
            return cls(json.loads(saved["terms"].tobytes()), saved["sizes"], saved["documents"], saved["counts"],
                       saved["lengths"])  # fmt: skip


def collect(texts: Iterable[str]) -> Block:
    """Count the terms of some documents."""
    number: dict[str, int] = {}
    known: dict[str, int] = {}
    found, lengths = array("i"), array("i")
    for text in texts:
        before = len(found)
        for word in words(text.lower()):
            seen = known.get(word)
            if seen is None:
                reduced = term(word)
                seen = -1 if reduced is None else number.setdefault(reduced, len(number))
                known[word] = seen
            if seen >= 0:
                found.append(seen)
        lengths.append(len(found) - before)
    return _block(number, np.array(found, np.int64), np.array(lengths, np.int32))


def _block(number: dict[str, int], found: npt.NDArray[np.int64], lengths: Ints) -> Block:
    terms = sorted(number)
    place = np.empty(len(terms), np.int64)
    place[[number[each] for each in terms]] = np.arange(len(terms))
    width = max(1, len(lengths))
    keys = place[found] * width + np.repeat(np.arange(len(lengths)), lengths)
    pairs, counts = np.unique(keys, return_counts=True)
    sizes = np.bincount(pairs // width, minlength=len(terms))
    return Block(terms, sizes, (pairs % width).astype(np.int32), counts.astype(np.int32), lengths)


@dataclass(frozen=True, slots=True)
class Postings:
    """The lists of all terms. Arrays, by name:

    starts: [t + 1], where each term's list begins and the last one ends
    documents, damping (or counts): [p], ascending in each list
    lengths: [d]
    letters, letters_at: the sorted terms as UTF-8, one after another, and [t + 1] where each begins
    """  # noqa: D415

    arrays: dict[str, npt.NDArray[Any]]
    known: dict[str, int] = field(default_factory=dict)
    """Terms that were found before."""
    size: int = field(init=False)
    """Documents that have a term."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", int(np.count_nonzero(self.arrays["lengths"])))

    def find(self, wanted: str) -> int | None:
        """Return a term's number, None if no document holds it."""
        number = self.known.get(wanted)
        if number is None:
            number = self._find(wanted.encode("utf-8", "surrogatepass"))
            if number is not None:
                self.known[wanted] = number
        return number

    def _find(self, key: bytes) -> int | None:
        letters, at = self.arrays["letters"], self.arrays["letters_at"]
        low, high = 0, len(at) - 1
        while low < high:
            middle = (low + high) // 2
            here = letters[at[middle] : at[middle + 1]].tobytes()
            if here == key:
                return middle
            low, high = (middle + 1, high) if here < key else (low, middle)
        return None

    def list_of(self, number: int) -> tuple[Ints, npt.NDArray[np.float32]]:
        """Return documents and damping of a term."""
        start, end = self.arrays["starts"][number : number + 2]
        return self.arrays["documents"][start:end], self.arrays["damping"][start:end]

    def save(self, folder: Path) -> None:
        """Write the arrays into a folder; those that are mapped there already stay."""
        for name, values in self.arrays.items():
            if isinstance(values, np.memmap):
                values.flush()
            else:
                np.save(folder / f"{name}.npy", values)

    @classmethod
    def open(cls, folder: Path) -> "Postings":
        """Map the arrays of a folder."""
        names = ("starts", "documents", "damping", "lengths", "letters", "letters_at")
        return cls({name: mapped(folder / f"{name}.npy") for name in names})


def mapped(path: Path) -> npt.NDArray[Any]:
    """Map an array file into memory; the array behaves, and is sliced as fast, as any other."""
    return np.asarray(np.load(path, mmap_mode="r"))


def merge(
    blocks: Sequence[Block | Path], allocate: Allocate = lambda _name, size, kind: np.empty(size, kind)
) -> Postings:
    """Join blocks of neighbouring documents.

    Args:
        blocks: Blocks in order, or the files that hold them; one is in memory at a time.
        allocate: Makes the large arrays, by name, length and type; on disk for instance.
    """
    total: dict[str, int] = {}
    for block in map(_loaded, blocks):
        for name, size in zip(block.terms, block.sizes.tolist(), strict=True):
            total[name] = total.get(name, 0) + size
    terms = sorted(total)
    place = {name: position for position, name in enumerate(terms)}
    starts = _starts([total[name] for name in terms])
    documents = allocate("documents", int(starts[-1]), np.int32)
    counts = allocate("counts", int(starts[-1]), np.int32)
    free, first, lengths = starts[:-1].copy(), 0, []
    for block in map(_loaded, blocks):
        mine = np.array([place[name] for name in block.terms], np.int64)
        ends = np.cumsum(block.sizes)
        target = np.repeat(free[mine] - (ends - block.sizes), block.sizes) + np.arange(len(block.documents))
        documents[target] = block.documents + first
        counts[target] = block.counts
        free[mine] += block.sizes
        first += len(block.lengths)
        lengths.append(block.lengths)
    encoded = [name.encode("utf-8", "surrogatepass") for name in terms]
    arrays = {"starts": starts, "documents": documents, "counts": counts}
    arrays["lengths"] = np.concatenate(lengths) if lengths else np.empty(0, np.int32)
    arrays["letters"] = np.frombuffer(b"".join(encoded), np.uint8)
    arrays["letters_at"] = _starts([len(name) for name in encoded])
    return Postings(arrays)


def _starts(sizes: list[int]) -> npt.NDArray[np.int64]:
    """Return where runs of these sizes begin, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _loaded(block: Block | Path) -> Block:
    return Block.load(block) if isinstance(block, Path) else block
