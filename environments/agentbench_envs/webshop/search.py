"""Full-text search with BM25, equal to Lucene's rankings as the original uses it (Pyserini's defaults).

The score of document d for a query is, in Lucene 9's order of operations and in its float32,

    sum_t  w_t - w_t / (1 + f_td / (k1 * (1 - b + b * L_d / L)))     w_t = q_t * ln(1 + (N - n_t + 1/2) / (n_t + 1/2))

with k1 = 0.9 and b = 0.4; q_t and f_td count the term in query and document, n_t is its number of documents, L the mean
length and L_d the document's own, of which Lucene keeps four significant bits. Equal scores are ordered by the
document's name, and the scores shown are rounded and spread as Anserini does it.

A query reads its rare terms in full. Once no document without any of them can reach the best k, the long lists of
common terms are only looked up for the documents that still can (MaxScore, Turtle and Flood 1995), so a search takes
well under a millisecond among 100,000 documents; with however many terms, its time is linear in their postings. An
index may be saved and opened again memory-mapped.

`t` below counts terms, `p` postings, `d` documents.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from agentbench_envs.webshop.analysis import terms
from agentbench_envs.webshop.postings import Ints, Postings, collect, mapped, merge

K1: Final = np.float32(0.9)
B: Final = np.float32(0.4)

LONG_LIST: Final = 1024
"""Postings above which it pays to ask whether a list must be read in full."""

WORTH: Final = 8
"""Documents with a score, per posting of a list, up to which it pays to ask that."""

STRIDE: Final = 1 << 22
"""Postings that are handled at once."""

MARGIN: Final = 1e-4
"""Room for rounding when a bound is compared with a score."""

TIE: Final = float(np.float32(1e-4))
"""Scores that are no further apart count as equal when they are shown."""

Scores = npt.NDArray[np.float64]


class _List(NamedTuple):
    """A query term's documents, and what it can add to them."""

    documents: npt.NDArray[np.int32]
    damping: npt.NDArray[np.float32]
    """1 + f / (k1 * ...), one per document."""
    weight: np.float32

    @property
    def bound(self) -> float:
        """The most that any document can gain."""
        return float(self.weight)

    def gains(self, where: Any = slice(None)) -> npt.NDArray[np.float32]:
        """Return what documents gain, for some positions of the list."""
        gains: npt.NDArray[np.float32] = self.weight - self.weight / self.damping[where]
        return gains


class SearchIndex:
    """Find documents by words.

    Args:
        documents: (name, text) of each document; names are unique.
    """

    def __init__(self, documents: Sequence[tuple[str, str]]) -> None:
        names = np.array([name for name, _ in documents], dtype=np.str_)
        self._set(names, merge([collect([text for _, text in documents])]))

    def _set(self, names: npt.NDArray[np.str_], postings: Postings, rank_d: Ints | None = None) -> None:
        self._names = names
        self._postings = postings
        if rank_d is None:
            rank_d = np.empty(len(names), np.int32)
            rank_d[np.argsort(names, kind="stable")] = np.arange(len(names), dtype=np.int32)
        self._rank_d = rank_d
        self._scratch = threading.local()
        if "damping" not in postings.arrays:
            postings.arrays["damping"] = damping(postings)

    @classmethod
    def of(cls, names: npt.NDArray[np.str_], postings: Postings) -> "SearchIndex":
        """Make an index of postings that are counted already."""
        index = cls.__new__(cls)
        index._set(names, postings)
        return index

    def save(self, folder: Path) -> None:
        """Write the index into a folder, for `open`."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "names.npy", self._names)
        np.save(folder / "ranks.npy", self._rank_d)
        self._postings.save(folder)

    @classmethod
    def open(cls, folder: Path) -> "SearchIndex":
        """Open a saved index; its lists stay on disk until they are read."""
        names, ranks = (mapped(folder / f"{name}.npy") for name in ("names", "ranks"))
        index = cls.__new__(cls)
        index._set(names, Postings.open(folder), ranks)
        return index

    def __len__(self) -> int:
        return len(self._names)

    def search(self, query: str, k: int = 50) -> list[tuple[str, float]]:
        """Return up to k documents that share a term with the query, best first.

        Args:
            query: Words.
            k: The most documents to return.

        Returns:
            (name, score) of each.
        """
        lists = self._lists(query)
        if not lists or k < 1:
            return []
        documents, scores = self._candidates(lists, k)
        if len(documents) > k:
            best = scores >= np.partition(scores, -k)[-k]
            documents, scores = documents[best], scores[best]
        order = np.lexsort((self._rank_d[documents], -scores))[:k]
        names = self._names[documents[order]].tolist()
        return list(zip(names, spread(scores[order]), strict=True))

    def _lists(self, query: str) -> list[_List]:
        """Return the lists of a query's terms, the shortest first."""
        postings, found = self._postings, []
        for term, count in Counter(terms(query)).items():
            number = postings.find(term)
            if number is None:
                continue
            documents, damping_p = postings.list_of(number)
            ratio = (postings.size - len(documents) + 0.5) / (len(documents) + 0.5)
            found.append(_List(documents, damping_p, np.float32(count) * np.float32(np.log(1 + ratio))))
        return sorted(found, key=lambda entry: len(entry.documents))

    def _candidates(self, lists: list[_List], k: int) -> tuple[Ints, npt.NDArray[np.float32]]:
        """Score every document that may be among the best k."""
        scores_d, done = self._cleared(), 0.0
        parts: list[Ints] = []
        """The documents that have a score."""
        count, rest = 0, sum(entry.bound for entry in lists)
        for number, entry in enumerate(lists):
            if rest < done and len(entry.documents) > max(LONG_LIST, count // WORTH):
                documents = _hopeful(scores_d, np.concatenate(parts), rest, k)
                if documents is not None:
                    documents, scores = _look_up(scores_d, documents, lists[number:], k)
                    break
            parts.append(entry.documents[scores_d[entry.documents] == 0])
            count += len(parts[-1])
            scores_d[entry.documents] += entry.gains()
            done += entry.bound
            rest -= entry.bound
        else:
            documents = np.concatenate(parts)
            scores = scores_d[documents]
        for part in parts:
            scores_d[part] = 0
        return documents, scores.astype(np.float32)

    def _cleared(self) -> Scores:
        """Return this thread's array of scores, which is kept at 0 between searches."""
        if not hasattr(self._scratch, "scores_d"):
            self._scratch.scores_d = np.zeros(len(self._names))
        scores_d: Scores = self._scratch.scores_d
        return scores_d


def _hopeful(scores_d: Scores, seen: Ints, rest: float, k: int) -> Ints | None:
    """Return the documents that can still be among the best k; None if one that has no score yet can.

    Args:
        scores_d: Scores so far.
        seen: The documents that have one.
        rest: The most that a document can still gain.
        k: How many are wanted.
    """
    if len(seen) < k:
        return None
    scores = scores_d[seen]
    threshold = np.partition(scores, -k)[-k] - MARGIN
    return seen[scores + rest >= threshold] if rest < threshold else None


def _look_up(scores_d: Scores, documents: Ints, lists: list[_List], k: int) -> tuple[Ints, Scores]:
    """Complete the scores of these documents alone, and drop on the way those that fall too far behind."""
    documents = np.sort(documents)  # needles in order are found several times as fast
    scores = scores_d[documents]
    rest = sum(entry.bound for entry in lists)
    for entry in lists:
        at = np.minimum(np.searchsorted(entry.documents, documents), len(entry.documents) - 1)
        hit = np.flatnonzero(entry.documents[at] == documents)
        scores[hit] += entry.gains(at[hit])
        rest -= entry.bound
        hopeful = scores + rest >= np.partition(scores, -k)[-k] - MARGIN
        documents, scores = documents[hopeful], scores[hopeful]
    return documents, scores


def damping(postings: Postings, out: npt.NDArray[np.float32] | None = None) -> npt.NDArray[np.float32]:
    """Return 1 + f / (k1 * (1 - b + b * L_d / L)) of each posting.

    Args:
        postings: Lists with their `counts`.
        out: Where to put the result, on disk for instance.
    """
    lengths, documents, counts = (postings.arrays[name] for name in ("lengths", "documents", "counts"))
    mean = np.float32(lengths.sum(dtype=np.int64) / postings.size if postings.size else 1)
    slope = np.float32(1) / (K1 * ((np.float32(1) - B) + B * lossy(lengths).astype(np.float32) / mean))
    damped = np.empty(len(documents), np.float32) if out is None else out
    for start in range(0, len(documents), STRIDE):
        here = slice(start, start + STRIDE)
        damped[here] = np.float32(1) + counts[here].astype(np.float32) * slope[documents[here]]
    return damped


def lossy(lengths: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Round lengths as Lucene stores them (`SmallFloat.intToByte4`): exact below 40, then to four significant bits."""
    above = np.maximum(lengths.astype(np.int64) - 24, 0)
    shift = np.maximum(np.frexp(above.astype(np.float64))[1] - 4, 0)
    return np.where(lengths < 24, lengths, 24 + (above >> shift << shift))


def spread(scores: npt.NDArray[np.float32]) -> list[float]:
    """Round scores to 1e-4 and take 1e-6 off for each tie, so that they are as strictly ordered as the ranking.

    Source: Anserini 0.22, `ScoreTiesAdjusterReranker`; it rounds in double precision and subtracts in single.
    """
    shown: list[float] = []
    rounded = (np.floor(scores.astype(np.float64) * 1e4 + 0.5) / 1e4).astype(np.float32)
    ties = 0
    for score in rounded.tolist():
        if shown and shown[-1] - score <= TIE:
            ties += 1
            score = float(np.float32(score) - np.float32(1e-6) * np.float32(ties))
        else:
            ties = 0
        shown.append(score)
    return shown
