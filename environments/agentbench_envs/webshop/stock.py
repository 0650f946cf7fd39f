"""A shop's stock: products, prices, goals, and the index to search them; in memory or on disk, it looks the same."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agentbench_envs.webshop.products import Goal, Product
from agentbench_envs.webshop.search import SearchIndex

Tagger = Callable[[str], Sequence[str]]
"""Returns the nouns of a title, in lower case."""

_WORDS = re.compile("[A-Za-z]+")
_NO_NOUNS: Final = frozenset({"the", "a", "an", "and", "or", "for", "with", "of", "in", "on", "to", "by", "from"})


@lru_cache(maxsize=65536)
def every_word(title: str) -> tuple[str, ...]:
    """Take every word of a title for a noun but articles and prepositions.

    The original asks spaCy's small English model for nouns. This rule needs no model; it also tagged the recordings.
    """
    return tuple(word for word in map(str.lower, _WORDS.findall(title)) if word not in _NO_NOUNS)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A stock of products and the goals that go with it."""

    products: Mapping[str, Product]
    """By asin, in the order of the file."""
    prices: Mapping[str, float]
    """By asin."""
    goals: Sequence[Goal]
    index: SearchIndex
    nouns: Tagger = every_word
    more_goals: Callable[[], Sequence[Goal]] = tuple
    """Reads the goals of people that lie beside these; a visit with one of them has its number."""

    def search(self, words: str, k: int = 50) -> list[Product]:
        """Return up to k products for a search, best first."""
        return [self.products[asin] for asin, _ in self.index.search(words, k)]
