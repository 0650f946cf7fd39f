"""Recorded games of the original, and files in its format made of them."""

import gzip
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"
RECORDINGS = (
    DATA / "golden" / "environments" / "alfworld_episodes.jsonl.gz",
    DATA / "golden" / "environments" / "alfworld_episodes_shared_loc.jsonl.gz",
)

NEW_GRAMMAR = 'action help {} "move {o} to {r}" "You arrive at {r.name}." '
OLD_GRAMMAR = '"put {o} in/on {r}" "You arrive at {lend.name}." '
"""What the reader looks for in the original's grammars, which are not part of this project."""


def recorded() -> Iterator[dict[str, Any]]:
    """Yield every recorded episode with its problem and task."""
    for path in RECORDINGS:
        problems: dict[str, str] = {}
        for episode in _lines(path):
            if "pddl_problem" in episode:
                problems[episode["game"]] = episode["pddl_problem"]
            told = episode["reset"]["obs"].partition("Your task is to: ")[2]
            yield episode | {"problem": problems[episode["game"]], "task": told.removesuffix(".")}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@lru_cache(maxsize=1)
def problems() -> dict[str, tuple[str, str]]:
    """Return problem and task of each recorded game, by its name and the file it comes from."""
    return {
        f"{episode['game']}-{len(episode['problem'])}": (episode["problem"], episode["task"]) for episode in recorded()
    }


def game_file(problem: str, task: str, *, grammar: str = NEW_GRAMMAR, **changes: Any) -> str:
    """Return the text of a `game.tw-pddl`."""
    told = json.dumps(f"Your task is to: {task}.")
    game = {"pddl_domain": "", "grammar": grammar + told, "pddl_problem": problem, "solvable": True}
    return json.dumps(game | changes)


def write_games(folder: Path) -> None:
    """Write recorded games as the original lays out its data: a few for each split."""
    splits = ("train", "train", "valid_seen", "valid_unseen")
    for number, (name, (problem, task)) in enumerate(problems().items()):
        place = folder / "json_2.1.1" / splits[number % 4] / name / "trial_0"
        place.mkdir(parents=True)
        grammar = OLD_GRAMMAR if number % 3 == 0 else NEW_GRAMMAR
        (place / "game.tw-pddl").write_text(game_file(problem, task, grammar=grammar), encoding="utf-8")
