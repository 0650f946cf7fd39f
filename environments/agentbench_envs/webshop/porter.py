"""Porter's stemmer as Lucene runs it: the algorithm of 1980 with Martin Porter's own later departures.

The departures (https://tartarus.org/martin/PorterStemmer): words of one or two letters stay as they are, `bli` becomes
`ble` where the paper has `abli` to `able`, and `logi` becomes `log`.

A word is read as [C](VC)^m[V], runs of consonants and vowels; m is its *measure*.
"""

from collections.abc import Mapping
from typing import Final

_STEP_2: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log",
}  # fmt: skip
_STEP_3: Final = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4: Final = dict.fromkeys(
    ("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ou", "ism",
     "ate", "iti", "ous", "ive", "ize"),
    "",
)  # fmt: skip


def stem(word: str) -> str:
    """Return the stem of a lower-case word.

    Example:
        >>> [stem(word) for word in ("technology", "assembly", "relational", "hopping", "be")]
        ['technolog', 'assembl', 'relat', 'hop', 'be']
    """
    if len(word) <= 2:
        return word
    word = _participle(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2, above=0)
    word = _replace(word, _STEP_3, above=0)
    word = _replace(word, _STEP_4, above=1)
    return _final_e(word)


def _shape(word: str) -> str:
    """Write a word as c and v; y is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _plural(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _participle(word: str) -> str:
    """Step 1b."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        base = word.removesuffix(suffix)
        if base != word:
            return _repair(base) if "v" in _shape(base) else word
    return word


def _repair(base: str) -> str:
    """Give a stripped participle its ending back: conflat(ed), fizz(ed), hopp(ing), fil(ing)."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if _doubled(base):
        return base if base[-1] in "lsz" else base[:-1]
    return base + "e" if _measure(base) == 1 and _short(base) else base


def _doubled(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _short(word: str) -> bool:
    """Tell whether a word ends consonant, vowel, consonant, the last one none of w, x and y."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _replace(word: str, endings: Mapping[str, str], *, above: int) -> str:
    """Replace the longest ending of a step, if the measure of what is left before it exceeds a bound."""
    for length in range(min(7, len(word)), 1, -1):
        ending = word[-length:]
        if ending in endings:
            keep = 1 if ending in ("sion", "tion") and endings is _STEP_4 else 0
            base = word[: len(word) - length + keep]
            return base + endings[ending] if _measure(base) > above else word
    return word


def _final_e(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        measure = _measure(word)
        if measure > 1 or (measure == 1 and not _short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
