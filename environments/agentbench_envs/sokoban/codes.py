"""The codes of a cell, and how they are written."""

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET, NEWLINE = range(8)
"""gym-sokoban's codes of `room_state` (0 to 5), then two of ours that make the grid one text: see `game`."""

RAGEN_GLYPHS = "#_O√XPS\n"
"""What the agent sees, by code; RAGEN's and verl-agent's glyphs."""

XSB_GLYPHS = "# .*$@+\n"
"""The standard text of Sokoban collections, by code."""

UNDER = bytes((WALL, FLOOR, TARGET, TARGET, FLOOR, FLOOR, TARGET, NEWLINE)).ljust(256, b"\0")
"""What remains of a cell when boxes and player are lifted off, as a `bytes.translate` table."""

WAYS = ("up", "down", "left", "right")
