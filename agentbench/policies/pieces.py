"""The text of each sampled token, for people who look at a reply token by token. Needs no model, only its tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Pieces:
    """The tokenizer of a checkpoint folder, as far as it is needed to show tokens.

    Args:
        folder: It holds a `tokenizer.json`.
    """

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def of(self, token_ids: Sequence[int], text: str) -> list[str] | None:
        """Split a reply into the texts of its tokens, special tokens included.

        A character of several tokens belongs to the last of them.

        Args:
            token_ids: What was sampled.
            text: What the reply says; a tokenizer that reads the ids differently is another one.

        Returns:
            One text per token, or None where the tokenizer is another one.
        """
        from tokenizers.decoders import DecodeStream

        # No tokenizer has ids beyond 32 bits; the library raises on them.
        if not all(0 <= token < 2**32 for token in token_ids):
            return None
        if self._tokenizer.decode(list(token_ids), skip_special_tokens=True) != text:
            return None
        stream = DecodeStream(skip_special_tokens=False)
        pieces = [stream.step(self._tokenizer, token) or "" for token in token_ids]
        rest = self._tokenizer.decode(list(token_ids), skip_special_tokens=False)[len("".join(pieces)) :]
        return [*pieces[:-1], pieces[-1] + rest] if pieces else []


def find_pieces(folders: Sequence[Path]) -> Pieces | None:
    """Return the tokenizer of the first folder that has one, where the library `tokenizers` is installed."""
    found = next((folder for folder in folders if (folder / "tokenizer.json").is_file()), None)
    try:
        return Pieces(found) if found is not None else None
    except (ModuleNotFoundError, ValueError):
        return None
