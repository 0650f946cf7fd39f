"""Genuine games: the `game.tw-pddl` files of the original's data, found and read.

The data are not part of this package. `alfworld-download` of the original puts them under `$ALFWORLD_DATA`, one folder
per split, one folder per game:

    json_2.1.1/valid_seen/pick_and_place_simple-Mug-None-Desk-308/trial_T2019.../{game.tw-pddl, traj_data.json, ...}

Which games count follows the original: solvable ones, no movable receptacles, no sliced objects. Their order is that
of their paths; the original's is the file system's, so that one seed means different games on different machines.
"""

import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench_envs.alfworld.game import World
from agentbench_envs.alfworld.pddl import MOST_CHARACTERS, parse
from agentbench_envs.alfworld.text import NEW, OLD, Wording

VARIABLE: Final = "ALFWORLD_DATA"

SPLITS: Final = ("train", "valid_seen", "valid_unseen")

GAME: Final = "game.tw-pddl"

_SKIPPED: Final = ("movable", "Sliced")

_SOLVABLE: Final = re.compile(rb'"solvable":\s*true')

_TASK: Final = re.compile(r'"Your task is to: (?P<task>(?:[^"\\]|\\.)*)\."')


def data_folder(data: str | None) -> Path:
    """Return the folder of the original's data.

    Args:
        data: What the user named; None is the variable's folder.

    Raises:
        PrerequisiteError: There is none.
    """
    name = data or os.environ.get(VARIABLE, "")
    if not name:
        raise PrerequisiteError(
            f"the original's games need its data: set ${VARIABLE} or -E data=DIR to the folder that alfworld-download "
            "filled; alfworld/synth needs no data"
        )
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise PrerequisiteError(f"there is no folder {folder} with the original's data")
    return folder


@lru_cache(maxsize=16)
def find_games(folder: Path, split: str) -> tuple[Path, ...]:
    """Return the games of a split, in the order of their paths.

    Raises:
        UsageError: There is no such split, or no game that counts.
        PrerequisiteError: The folder does not hold this split.
    """
    if split not in SPLITS:
        raise UsageError(f"found the split {split!r}, expected one of {', '.join(SPLITS)}")
    bases = [folder, *sorted(folder.glob("json_*"))]
    base = next((base / split for base in bases if (base / split).is_dir()), None)
    if base is None:
        raise PrerequisiteError(f"{folder} holds no folder {split}, nor does a folder json_* in it")
    games = tuple(file for file in sorted(base.rglob(GAME)) if _counts(file, base))
    if not games:
        raise UsageError(f"{base} holds no solvable {GAME}")
    return games


def _counts(file: Path, base: Path) -> bool:
    if any(word in str(file.relative_to(base)) for word in _SKIPPED):
        return False
    return _SOLVABLE.search(file.read_bytes()) is not None


@lru_cache(maxsize=256)
def read_game(file: Path) -> World:
    """Read one game.

    Raises:
        UsageError: It is no game of the original's; the message names the file.
    """
    try:
        if file.stat().st_size > MOST_CHARACTERS:
            raise UsageError(f"found {file.stat().st_size:,} bytes, expected at most {MOST_CHARACTERS:,}")
        return _world(_parsed(file.read_text(encoding="utf-8")))
    except (UsageError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None


def _parsed(text: str) -> dict[str, str]:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"no JSON of a game ({type(error).__name__}: {error!s:.80})") from None
    needed = ("pddl_problem", "grammar")
    if not isinstance(data, dict) or not all(isinstance(data.get(key), str) for key in needed):
        raise UsageError(f"expected a JSON object with the texts {' and '.join(needed)}")
    return data


def _world(data: dict[str, str]) -> World:
    grammar = data["grammar"]
    found = _TASK.search(grammar)
    if found is None:
        raise UsageError('its grammar does not say "Your task is to: ..."')
    return World(parse(data["pddl_problem"]), str(json.loads(f'"{found["task"]}"')), _wording(grammar))


def _wording(grammar: str) -> Wording:
    """Tell the generation of the texts: the newer games move objects, the older ones put them."""
    puts = "put {o} in/on {r}" in grammar
    if not puts and "move {o} to {r}" not in grammar:
        raise UsageError("its grammar is of no known generation: it neither moves objects nor puts them in/on")
    wording = OLD if puts else NEW
    return wording._replace(
        arrives_at_location="You arrive at {lend.name}" in grammar, has_help="action help" in grammar
    )
