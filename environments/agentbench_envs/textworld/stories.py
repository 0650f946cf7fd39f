"""Story files of the genuine TextWorld: made at a seed and kept, or brought by the user.

A *recipe* is what `tw-make` is told. Its game at a seed is made by TextWorld's own library calls, once: it is kept in
the user's cache (`$AGENTBENCH_CACHE`, else `agentbench` in `$XDG_CACHE_HOME` or `~/.cache`) under a hash of recipe,
seed and split, together with the hashes of its two files (`game.z8`, `game.json`). A folder appears there whole, by a
rename, and is made again if its files are not what their hashes say; a lock per game keeps threads and processes from
making it twice.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from agentbench.core.errors import AgentBenchError, GenerationError, UsageError
from agentbench.core.records import digest, write_json
from agentbench.core.seeding import derive
from agentbench.remote.stdio import Session

DRAFT_SECONDS: Final = 300.0
COMPILE_SECONDS: Final = 120.0
LOAD_SECONDS: Final = 30.0
"""How long making, compiling and opening a game may take."""

MOST_DRAWS: Final = 200
"""Seeds that are tried for one task before its recipe is called impossible."""

LARGEST_STORY: Final = 512 * 1024
"""Bytes of the largest story of version 8 (Z-Machine Standard 1.1, section 1.1.4)."""

LARGEST_JSON: Final = 16 * 2**20
"""Bytes of the largest `.json` that is read; TextWorld's own have 20 to 60 thousand."""

SHOWN: Final = 300
"""Characters of TextWorld's complaint about a user's game that are repeated."""

SPLITS: Final = ("train", "valid", "test", "all")

SIMPLE_SEEDS: Final = (
    *(0, 1, 2, 3, 4, 6, 8, 10, 13, 15, 16, 17, 19, 20, 21, 22, 27, 28),
    *(29, 31, 32, 35, 40, 41, 45, 49, 50, 52, 55, 57, 92, 93, 103, 122, 136, 142),
)
"""The first seed of each of tw-simple's 36 games: 2 hiding places of the key, 3 places of the food, 6 foods."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides a family of games; the names are those of `tw-make`."""

    challenge: str
    goal: str
    settings: tuple[tuple[str, Any], ...]

    @property
    def sent(self) -> dict[str, Any]:
        """The recipe as the worker reads it."""
        return {"challenge": self.challenge, "goal": self.goal, **dict(self.settings)}

    @property
    def seeds(self) -> tuple[int, ...] | None:
        """The seeds of a family that is finite in effect."""
        return SIMPLE_SEEDS if self.challenge == "tw-simple" else None

    @property
    def splits_itself(self) -> bool:
        """Whether TextWorld has splits of its own: tw-cooking's differ in foods and in how they are prepared."""
        return self.challenge == "tw-cooking"


@dataclass(frozen=True, slots=True)
class Story:
    """A game on disk."""

    path: Path
    """The `.z8` file; the `.json` stands beside it."""
    content: str
    """A hash of what is where and what wins or loses: equal contents are equal games."""


def split_of(content: str) -> str:
    """Return the split of a game, by its content alone: half of the hashes train, a quarter each valid and test."""
    return ("train", "train", "valid", "test")[int(content[:8], 16) % 4]


def seeds_of(recipe: Recipe, split: str) -> tuple[int, ...] | None:
    """Return the seeds of a finite family that belong to a split: every fourth valid, every fourth test."""
    seeds = recipe.seeds
    if seeds is None or split == "all":
        return seeds
    quarters = {"train": (0, 1), "valid": (2,), "test": (3,)}[split]
    return tuple(seed for number, seed in enumerate(seeds) if number % 4 in quarters)


class Shelf:
    """The user's cache of games for one version of TextWorld.

    Args:
        version: TextWorld's version.
    """

    def __init__(self, version: str) -> None:
        home = os.environ.get("AGENTBENCH_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "agentbench")
        self.folder = Path(home).expanduser() / f"textworld-{version}"

    def made(self, session: Session, recipe: Recipe, seed: int, split: str) -> Story:
        """Return the game of a seed, making it if nobody has.

        Args:
            session: A worker's session, for making it.
            recipe: The family.
            seed: Of a finite family, an index into the split's seeds; else what the draws are derived from.
            split: Which contents will do.

        Raises:
            UsageError: No game of this recipe fits the split.
        """

        def draft() -> dict[str, Any]:
            listed = seeds_of(recipe, split)
            if listed is not None:
                return self._draft(session, recipe, listed[seed % len(listed)])
            for draw in range(MOST_DRAWS):
                drawn = derive("textworld game", recipe.challenge, json.dumps(recipe.settings), seed, draw) % 2**32
                try:
                    drafted = self._draft(session, recipe, drawn)
                except GenerationError:
                    continue
                if recipe.splits_itself or split in ("all", split_of(drafted["content"])):
                    return drafted
            raise UsageError(f"none of {MOST_DRAWS} games of {recipe.sent} belongs to split {split!r}")

        return self._kept(digest("made", asdict(recipe), seed, split), session, draft)

    def compiled(self, session: Session, path: Path) -> Story:
        """Return the game of a user's `.json` file, compiled.

        Raises:
            AgentBenchError: TextWorld could not read or compile it.
        """
        key = digest("compiled", hashlib.sha256(path.read_bytes()).hexdigest())
        return self._kept(key, session, lambda: session.call("draft_from", LOAD_SECONDS, path=str(path)))

    def _draft(self, session: Session, recipe: Recipe, seed: int) -> dict[str, Any]:
        drafted: dict[str, Any] = session.call("draft", DRAFT_SECONDS, recipe=recipe.sent, seed=seed)
        return drafted

    def _kept(self, key: str, session: Session, draft: Any) -> Story:
        folder = self.folder / key[:32]
        content = _content_of(folder)
        if content is None:
            with self._locked(folder.name):
                content = _content_of(folder) or self._make(folder, session, draft)
        return Story(folder / "game.z8", content)

    def _make(self, folder: Path, session: Session, draft: Any) -> str:
        """Make the game's folder aside, then put it in its place; a damaged one that stands there goes."""
        aside = Path(tempfile.mkdtemp(prefix=".making-", dir=self.folder))
        try:
            drafted = draft()
            session.call("compile", COMPILE_SECONDS, path=str(aside / "game.z8"))
            for leftover in aside.iterdir():
                if leftover.suffix not in (".z8", ".json"):
                    leftover.unlink()
            write_json(aside / "made.json", {"content": drafted["content"], "sha256": _hashes(aside)})
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        content: str = drafted["content"]
        return content

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f".{name}.lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _content_of(folder: Path) -> str | None:
    """Return the content of a game that is there and undamaged."""
    try:
        made = json.loads((folder / "made.json").read_text(encoding="utf-8"))
        return str(made["content"]) if made["sha256"] == _hashes(folder) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _hashes(folder: Path) -> dict[str, str]:
    files = (folder / "game.z8", folder / "game.json")
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def brought(folder: Path, split: str, session: Session, shelf: Shelf) -> tuple[Story, ...]:
    """Return the games of a user's folder that belong to a split, in the order of their paths.

    A game is a `.z8` file with its `.json` beside it, or a `.json` file alone, which is compiled. Each is opened once,
    so that what cannot be played is refused before any episode.

    Raises:
        UsageError: There is no folder, no game of the split, or a game that cannot be played.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder of games {folder}")
    stories = [_open(path, session, shelf) for path in sorted(folder.rglob("*.json")) if path.name != "made.json"]
    alone = [path for path in sorted(folder.rglob("*.z8")) if not path.with_suffix(".json").is_file()]
    if alone:
        raise UsageError(f"{alone[0]} has no {alone[0].with_suffix('.json').name} beside it, which says its rules")
    fitting = tuple(story for story in stories if split in ("all", split_of(story.content)))
    if not fitting:
        raise UsageError(f"no game in {folder} belongs to split {split!r}; split 'all' takes every game")
    return fitting


def _open(path: Path, session: Session, shelf: Shelf) -> Story:
    """Look a user's game over, and open it once."""
    try:
        check_json(path)
        story = _story_of(path, session, shelf)
        session.call("load", LOAD_SECONDS, path=str(story.path))
        state = session.call("reset", LOAD_SECONDS)
        if not set(state["policy"][:1]) & set(state["admissible"]):
            raise UsageError("by its rules it cannot be won")
    except AgentBenchError as error:
        raise UsageError(f"{path} cannot be played: {' '.join(str(error).split())[:SHOWN]}") from error
    return story


def _story_of(path: Path, session: Session, shelf: Shelf) -> Story:
    story = path.with_suffix(".z8")
    if not story.is_file():
        return shelf.compiled(session, path)
    check_story(story)
    return Story(story, session.call("draft_from", LOAD_SECONDS, path=str(path))["content"])


def check_json(path: Path) -> None:
    """Refuse what is no game of TextWorld, before TextWorld sees it.

    Raises:
        UsageError: The file is too large, no JSON, nests too deep, or lacks what every game has.
    """
    if path.stat().st_size > LARGEST_JSON:
        raise UsageError(f"it has {path.stat().st_size} bytes, expected at most {LARGEST_JSON}")
    try:
        game = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is no JSON: {type(error).__name__}: {error}") from error
    lacking = [key for key in ("KB", "infos", "quests", "world") if not isinstance(game, dict) or key not in game]
    if lacking:
        raise UsageError(f"it lacks {', '.join(map(repr, lacking))}, which every game of TextWorld has")


def check_story(path: Path) -> None:
    """Refuse a story file that is not whole: version, length and checksum of its header (Z-Machine Standard, 11.1).

    Raises:
        UsageError: It is another file, or it was cut or changed.
    """
    if path.stat().st_size > LARGEST_STORY:
        raise UsageError(f"{path.name} has {path.stat().st_size} bytes, a story has at most {LARGEST_STORY}")
    story = path.read_bytes()
    if len(story) < 64 or story[0] != 8:
        raise UsageError(f"{path.name} is no story file of version 8")
    length = 8 * int.from_bytes(story[0x1A:0x1C], "big")
    if not 64 <= length <= len(story):
        raise UsageError(f"{path.name} was cut: it has {len(story)} bytes, its header says {length}")
    found, expected = sum(story[64:length]) % 65536, int.from_bytes(story[0x1C:0x1E], "big")
    if found != expected:
        raise UsageError(f"{path.name} was changed: its checksum is {found}, its header says {expected}")
