"""What somebody means who does not type the exact command.

TextWorld's games are compiled with Inform, whose parser takes `north` for `go north`, `get` for `take`, and any words
of a thing's name for the thing. Here a text means an admissible command if, after synonyms and articles are settled, it
is that command, or names each of its things by some of its words, and no other admissible command fits as well.
"""

import re
from collections.abc import Sequence

LONGEST = 200
"""Longer texts mean nothing."""

_ARTICLES = {"the", "a", "an", "some", "my"}

_JOINTS = ("from", "into", "on", "with")
"""Words between the two things of a command."""

_WHOLE = {
    **{short: f"go {way}" for way in ("north", "south", "east", "west") for short in (way, way[0], f"go {way[0]}")},
    "l": "look",
    "i": "inventory",
    "inv": "inventory",
    "take inventory": "inventory",
}

_FIRST = {
    "get": "take", "pick up": "take", "grab": "take", "carry": "take", "hold": "take", "remove": "take",
    "x": "examine", "look at": "examine", "watch": "examine", "describe": "examine", "check": "examine",
    "shut": "close", "cover": "close", "put down": "drop", "throw": "drop", "discard": "drop",
    "walk": "go", "run": "go", "move": "go", "unwrap": "open", "uncover": "open",
}  # fmt: skip

_JOINT = {"in": "into", "inside": "into", "onto": "on", "using": "with", "off": "from"}


_EVERYTHING = ("drop all", "drop everything")


def understand(text: str, commands: Sequence[str]) -> Sequence[str]:
    """Return the command that a text means, if there is exactly one; `drop all` means several.

    Example:
        >>> understand("get the KEY", ["take old key from chest", "take coin", "look"])
        ['take old key from chest']
    """
    if len(text) > LONGEST:
        return []
    words = _plain(text)
    if len(words) < 2 or " ".join(words) in _EVERYTHING:
        return _brief(" ".join(words), commands)
    words = _complete(words, commands)
    known = {command: _plain(command) for command in commands} if words else {}
    for fits in (_same, _same_things, _some_words):
        found = [command for command, theirs in known.items() if fits(words, theirs)]
        if found:
            return found if len(found) == 1 else []
    return []


def _brief(words: str, commands: Sequence[str]) -> Sequence[str]:
    """Complete a bare verb by the only thing that it can be about, as Inform does."""
    drops = [command for command in commands if command.startswith("drop ")]
    if words in _EVERYTHING:
        return drops
    carried = [command.removeprefix("drop ") for command in drops]
    seen = [command.removeprefix("examine ") for command in commands if command.startswith("examine ")]
    about = {"drop": carried, "eat": carried, "take": [thing for thing in seen if thing not in carried]}.get(words, [])
    command = f"{words} {about[0]}" if len(about) == 1 else words
    return [command] if command in commands else []


def _complete(words: list[str], commands: Sequence[str]) -> list[str]:
    """Name the second thing where it is left out, or return nothing where the game would make no sense of it.

    Inform takes the key of a lock to be what is carried, if that is one thing. `put key` means putting it into itself,
    `put key on` wearing it.
    """
    verb, first, second = _parts(words)
    carried = [command.removeprefix("drop ") for command in commands if command.startswith("drop ")]
    if verb in ("lock", "unlock") and len(second) <= 1:
        return [verb, *first, "with", *_plain(carried[0])] if len(carried) == 1 else []
    return [] if len(second) == 1 or (verb in ("put", "insert") and not second) else words


def _plain(text: str) -> list[str]:
    """Settle case, punctuation, articles and synonyms."""
    words = [word for word in re.findall(r"[^\s.!?,;]+", text.lower()) if word not in _ARTICLES]
    whole = _WHOLE.get(" ".join(words))
    if whole is not None:
        return whole.split()
    for size in (2, 1):
        first = _FIRST.get(" ".join(words[:size]))
        if first is not None:
            words = [first, *words[size:]]
            break
    words = [_JOINT.get(word, word) for word in words]
    return ["insert", *words[1:]] if words[:1] == ["put"] and "into" in words else words


def _parts(words: list[str]) -> tuple[str, list[str], list[str]]:
    """Return verb, first thing, and second thing with the word before it."""
    for at, word in enumerate(words[1:], start=1):
        if word in _JOINTS:
            return words[0], words[1:at], words[at:]
    return words[0], words[1:], []


def _same(words: list[str], theirs: list[str]) -> bool:
    return words == theirs


def _same_things(words: list[str], theirs: list[str]) -> bool:
    """The first thing is the same, and the second is left out."""
    verb, first, second = _parts(words)
    return not second and len(first) > 0 and (verb, first) == _parts(theirs)[:2]


def _some_words(words: list[str], theirs: list[str]) -> bool:
    """Each thing that is named is named by some of its words."""
    verb, first, second = _parts(words)
    their_verb, their_first, their_second = _parts(theirs)
    return verb == their_verb and len(first) > 0 and set(first) <= set(their_first) and set(second) <= set(their_second)
