"""The space of texts. gymnasium's own `Text` space refuses newlines and most of Unicode."""

from typing import Any

import gymnasium
import numpy as np

_SAMPLE_ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz 0123456789[]|\n"))


class Text(gymnasium.Space[str]):
    """All strings. `sample` draws short printable ones; a sensible action comes from `Env.random_action`."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a text has no fixed length."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a string of 0 to 24 characters; masks are not supported.

        Raises:
            ValueError: A mask or a probability was given.
        """
        if mask is not None or probability is not None:
            raise ValueError("the space of texts takes no mask and no probability")
        length = self.np_random.integers(25)
        return "".join(self.np_random.choice(_SAMPLE_ALPHABET, size=length))

    def contains(self, x: Any) -> bool:
        """Tell whether x is a string."""
        return isinstance(x, str)

    def __repr__(self) -> str:
        return "Text()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text)

    def __hash__(self) -> int:
        return hash(Text)
