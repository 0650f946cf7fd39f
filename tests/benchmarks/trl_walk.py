"""The game of `trl_speed`, as both sides play it: a walk on a four by four grid that nothing ends but the turn limit.

Every reply is an action, every observation has 19 bytes. The score is a checksum of the replies: attempts at one task
differ in it, so that no group is without signal and neither side can leave work out.
"""

import zlib

TURNS = 12
GROUP = 8
INSTRUCTIONS = "You are @ on a grid. Answer every picture with up, down, left or right."

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Walk:
    """One walk.

    Args:
        seed: Decides where it begins.
    """

    def __init__(self, seed: int) -> None:
        self._place = (seed % 4, seed // 4 % 4)
        self._checksum = seed
        self.score = 0.0

    def look(self) -> str:
        """Draw the grid."""
        row, column = self._place
        rows = ["____"] * 4
        rows[row] = "_" * column + "@" + "_" * (3 - column)
        return "\n".join(rows)

    def move(self, reply: str) -> float:
        """Go where the reply's checksum points, and return what it pays."""
        self._checksum = zlib.crc32(reply.encode(), self._checksum & 0xFFFFFFFF)
        down, right = _MOVES[self._checksum % 4]
        row, column = self._place
        self._place = ((row + down) % 4, (column + right) % 4)
        paid = self._checksum / 2**32 / TURNS
        self.score += paid
        return paid
