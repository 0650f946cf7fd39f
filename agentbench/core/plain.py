"""Text of models and environments made harmless: for a terminal to show, for an encoder to encode."""

import re

_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Return the text without what could steer a terminal or mislead its reader.

    Newlines and tabs stay; every other control character (C0, DEL, C1), lone surrogates, and bidirectional embeddings,
    overrides and isolates (the "Trojan Source" attack, Boucher and Anderson 2021) go. Markup of rich is not touched.

    Example:
        >>> plain("\x1b[2Jcleared\r\n\u202edecrepo")
        '[2Jcleared\ndecrepo'
    """
    return _UNSHOWABLE.sub("", text)


def encodable(text: str) -> str:
    r"""Return the text with every lone surrogate replaced by U+FFFD, so that it has a UTF-8 form.

    Example:
        >>> encodable("a\ud800b")
        'a�b'
    """
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
