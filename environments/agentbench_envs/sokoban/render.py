"""A position as an image: one tile of 16 x 16 pixels per cell, drawn with numpy."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from agentbench_envs.sokoban.codes import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL
from agentbench_envs.sokoban.levels import Level

Image = NDArray[np.uint8]

TILE = 16

BRICK, MORTAR = (120, 72, 56), (78, 46, 38)
GROUND = (236, 228, 208)
MARK = (206, 62, 52)
WOOD, PLANK = (196, 142, 74), (126, 84, 38)
DONE, DONE_PLANK = (104, 168, 86), (52, 104, 48)
COAT, SKIN, HAIR = (48, 92, 168), (242, 198, 160), (60, 42, 34)


def image(level: Level) -> Image:
    """Draw a level; the result has the shape [16 * rows, 16 * columns, 3]."""
    codes = level.grid
    rows, columns = codes.shape
    return _tiles()[codes].transpose(0, 2, 1, 3, 4).reshape(rows * TILE, columns * TILE, 3)


@cache
def _tiles() -> Image:
    tiles = np.empty((PLAYER_ON_TARGET + 1, TILE, TILE, 3), dtype=np.uint8)
    tiles[:] = GROUND
    tiles[WALL] = _wall()
    tiles[TARGET] = _target(tiles[FLOOR])
    tiles[BOX] = _box(tiles[FLOOR], WOOD, PLANK)
    tiles[BOX_ON_TARGET] = _box(tiles[FLOOR], DONE, DONE_PLANK)
    tiles[PLAYER] = _player(tiles[FLOOR])
    tiles[PLAYER_ON_TARGET] = _player(tiles[TARGET])
    return tiles


def _wall() -> Image:
    tile = np.empty((TILE, TILE, 3), dtype=np.uint8)
    tile[:] = BRICK
    tile[3::4] = MORTAR
    for top, left in ((0, 7), (4, 3), (8, 7), (12, 3)):
        tile[top : top + 4, [left, (left + 8) % TILE]] = MORTAR
    return tile


def _target(ground: Image) -> Image:
    tile = ground.copy()
    row, column = np.indices((TILE, TILE)) - (TILE - 1) / 2
    distance = abs(row) + abs(column)
    tile[(distance < 8) & (distance > 4)] = MARK
    return tile


def _box(ground: Image, wood: tuple[int, int, int], plank: tuple[int, int, int]) -> Image:
    tile = ground.copy()
    tile[1:-1, 1:-1] = plank
    tile[2:-2, 2:-2] = wood
    for step in range(3, TILE - 3):
        tile[step, [step, TILE - 1 - step]] = plank
    return tile


def _player(ground: Image) -> Image:
    tile = ground.copy()
    row, column = np.indices((TILE, TILE)) - (TILE - 1) / 2
    tile[(row > -1) & (row < 7) & (abs(column) < 3.6)] = COAT
    tile[(row > 5) & (row < 7) & (abs(column) < 1)] = ground[0, 0]
    head = (row + 3.5) ** 2 + column**2 < 3.7**2
    tile[head] = SKIN
    tile[head & (row < -4.4)] = HAIR
    tile[5, [6, 9]] = HAIR
    return tile
