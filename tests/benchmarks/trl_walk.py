"""The games of `trl_speed`, as both sides play them: walks on a four by four grid, twelve turns at most.

Every reply is an action, every observation has 19 bytes. Two games:

- `full`: nothing ends the walk but the turn limit, and the score is a checksum of the replies: attempts at one task
  differ in it, so that no group is without signal and neither side can leave work out.
- `ends`: the walk has a goal, which pays 1 and ends it. So are real tasks: episodes end when they are solved, and a
  group whose attempts all ended alike teaches nothing. A goal is as likely next to the start as anywhere else.
"""

import zlib

TURNS = 12
GROUP = 8
INSTRUCTIONS = "You are @ on a grid. Answer every picture with up, down, left or right."

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Walk:
    """One walk.

    Args:
        seed: Decides where it begins, and where the goal is.
        ends: Play the game that ends at the goal.
    """

    def __init__(self, seed: int, *, ends: bool) -> None:
        self._place = (seed % 4, seed // 4 % 4)
        away = 1 + zlib.crc32(str(seed).encode()) % 15
        self._goal = ((self._place[0] + away // 4) % 4, (self._place[1] + away % 4) % 4) if ends else None
        self._checksum = seed
        self.score = 0.0
        self.over = False

    def look(self) -> str:
        """Draw the grid."""
        row, column = self._place
        rows = ["____"] * 4
        rows[row] = "_" * column + "@" + "_" * (3 - column)
        return "\n".join(rows)

    def move(self, reply: str) -> float:
        """Go where the reply's checksum points, and return what it pays; nothing happens once the walk is over."""
        if self.over:
            return 0.0
        self._checksum = zlib.crc32(reply.encode(), self._checksum & 0xFFFFFFFF)
        down, right = _MOVES[self._checksum % 4]
        row, column = self._place
        self._place = ((row + down) % 4, (column + right) % 4)
        self.over = self._place == self._goal
        paid = self._checksum / 2**32 / TURNS if self._goal is None else float(self.over)
        self.score += paid
        return paid
