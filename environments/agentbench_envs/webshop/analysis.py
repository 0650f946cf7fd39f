"""Text to search terms, as Lucene's EnglishAnalyzer makes them.

Words are cut by Unicode's rules (UAX #29: `'`, `.` and `:` hold letters together, `.` and `,` digits, `_` everything;
each ideograph and hiragana is a word, so is an emoji), then lose a possessive 's, are lower-cased, dropped if they are
one of 33 stop words, and stemmed.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from agentbench_envs.webshop.porter import stem

STOP_WORDS: Final = frozenset(
    ("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
     "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with")
)  # fmt: skip

LONGEST: Final = 255
"""Characters of a word; a longer one is cut into several."""

# Ideographs and hiragana: one word each. Katakana, and scripts without spaces (Thai, Lao, Myanmar, Khmer): one a run.
_SINGLE = "\u3041-\u3096\u309d-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"
_UNSPACED = "\u0e01-\u0e4f\u0e81-\u0eff\u1000-\u109f\u1780-\u17d3"
_NO_LETTER = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u215f\u2460-\u249b\u24ea-\u24ff\u2776-\u2793"
_LETTER = rf"[^\W\d_{_SINGLE}{_KATAKANA}{_UNSPACED}{_NO_LETTER}]"
_MARKS = "\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u200c-\u200f\u20d0-\u20f0\ufe00-\ufe0f"
_BETWEEN_LETTERS = "['.:\u00b7\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a]"
_BETWEEN_DIGITS = "['.,;\u2018\u2019\u2024\u066c\ufe10\ufe14\ufe50\ufe52\ufe54\uff07\uff0c\uff0e\uff1b]"
_PICTURE = "[\u231a-\u23ff\u25aa-\u27bf\u2934-\u2b55\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
_TINTED = rf"{_PICTURE}[\ufe0f\U0001f3fb-\U0001f3ff]*"
_EMOJI = rf"[\U0001f1e6-\U0001f1ff]{{2}}|[#*0-9]\ufe0f?\u20e3|{_TINTED}(?:\u200d{_TINTED})*"

# Underlines that lead to no word are tried once, as a whole; from each of them anew would take quadratic time.
_WORD = re.compile(
    rf"{_EMOJI}|[{_SINGLE}][{_MARKS}]*|[{_UNSPACED}]+|[{_KATAKANA}][{_KATAKANA}{_MARKS}]*"
    rf"|(?<!_)_*+(?:{_LETTER}|\d)[{_MARKS}]*(?:_*(?:{_LETTER}|\d)[{_MARKS}]*"
    rf"|(?<=\d){_BETWEEN_DIGITS}(?=\d)|(?<!\d){_BETWEEN_LETTERS}(?={_LETTER}))*_*"
)
_POSSESSIVE = ("'s", "\u2019s", "\uff07s")


def words(text: str) -> Iterator[str]:
    """Yield the words of a lower-case text, before anything is done to them."""
    for word in _WORD.findall(text):
        if len(word) <= LONGEST:
            yield word
        else:
            yield from (word[start : start + LONGEST] for start in range(0, len(word), LONGEST))


@lru_cache(maxsize=65536)
def term(word: str) -> str | None:
    """Return the search term of a lower-case word, None for a stop word."""
    if word.endswith(_POSSESSIVE):
        word = word[:-2]
    return None if word in STOP_WORDS else stem(word)


def terms(text: str) -> list[str]:
    """Return the search terms of a text, in order.

    Example:
        >>> terms("The women's shoes, size 10.5 (xx-large)")
        ['women', 'shoe', 'size', '10.5', 'xx', 'larg']
    """
    found = (term(word) for word in words(text.lower()))
    return [known for known in found if known is not None]
