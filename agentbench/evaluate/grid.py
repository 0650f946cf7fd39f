"""One policy on a grid of variants: how far does it get as the tasks grow?

    agentbench eval --model PATH --env 'textworld/w*'        every variant whose name fits
    agentbench eval --model PATH --env sokoban/easy,sokoban/6x6-2:valid

A grid is a folder of ordinary runs, one per cell, and `grid.json`, which names the cells; `--resume` on the folder goes
on where it stopped. This is the study of complexity of "A Practitioner's Guide to Multi-turn Agentic RL"
(arXiv 2510.01132), as a command.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from agentbench.core.errors import IntegrityError, RecordError, UsageError
from agentbench.core.records import RunDirectory, require_equal, write_json, write_text
from agentbench.core.registry import environments, resolve
from agentbench.evaluate.config import EvalConfig
from agentbench.rollout.launch import check_needs

WILD = ("*", "?", "[", ",")
"""What makes a grid of a name."""
_PART = re.compile(r"([\w-]+(/.*)?|.*\.py.*)?")
"""What may be part of a grid; anything else is no name of an environment, and is told so as a whole."""


class Cell(NamedTuple):
    """One variant of a grid."""

    env: str
    """`name/variant@version:split`."""
    run: Path | None
    """Its run so far."""
    complete: bool


def is_grid(env: str) -> bool:
    """Tell whether a name stands for several environments."""
    return any(mark in env for mark in WILD) and all(_PART.fullmatch(part.strip()) for part in env.split(","))


def expand(env: str) -> list[str]:
    """Return the environments that a name stands for, in the order of the entry's variants.

    Args:
        env: Names separated by commas; in a variant `*`, `?` and `[...]` fit any name, as in a shell.

    Raises:
        UsageError: A part fits nothing.
    """
    return list(dict.fromkeys(name for part in env.split(",") if part.strip() for name in _expand(part.strip())))


def _expand(part: str) -> Iterator[str]:
    base, slash, rest = part.partition("/")
    if not slash or ".py" in part or not any(mark in rest for mark in WILD):
        resolved = resolve(part)
        yield f"{part.partition('.py')[0]}.py/{resolved.variant}:{resolved.split}" if ".py" in part else _name(part)
        return
    pattern, _, ending = rest.partition(":")
    known = environments()
    variants = known[base].variants if base in known else ()
    fitting = [variant for variant in variants if fnmatchcase(variant, pattern)]
    if not fitting:
        raise UsageError(f"no variant fits {part!r}; known: {', '.join(f'{base}/{name}' for name in variants) or base}")
    for variant in fitting:
        yield _name(f"{base}/{variant}" + (f":{ending}" if ending else ""))


def _name(env: str) -> str:
    resolved = resolve(env)
    return f"{resolved.id}:{resolved.split}"


class Grid:
    """A grid on disk."""

    def __init__(self, path: Path, envs: list[str]) -> None:
        self.path = path
        self._envs = envs

    @classmethod
    def create(cls, config: EvalConfig) -> "Grid":
        """Make the folder of a new grid.

        Raises:
            PrerequisiteError: What one of its environments needs is not here.
            RecordError: It cannot be written.
        """
        envs = expand(config.env)
        for env in envs:
            resolved = resolve(env, **config.env_args)
            if config.sandbox != "docker" or "docker" in resolved.needs:  # What it needs else, its image has.
                check_needs(resolved)
        name = f"grid--{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        path = config.out / name
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise RecordError(f"cannot make {path}: {error.strerror}") from error
        write_text(path / "config.toml", config.write(path / "config.toml"))
        write_json(path / "grid.json", {"envs": envs, "config": config.result_keys()})
        return cls(path, envs)

    @classmethod
    def open(cls, path: Path, config: EvalConfig) -> "Grid":
        """Open a grid to go on with.

        Raises:
            UsageError: It is one of another configuration.
            IntegrityError: It is damaged.
        """
        try:
            said = json.loads((path / "grid.json").read_text(encoding="utf-8"))
            envs = [str(env) for env in said["envs"]]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise IntegrityError(f"{path / 'grid.json'} cannot be read: {error}") from error
        require_equal(path, "configuration", said["config"], config.result_keys())
        return cls(path, envs)

    def cells(self) -> list[Cell]:
        """The grid's cells, in order."""
        runs = {}
        for file in sorted(self.path.glob("*/run.json")):
            run = RunDirectory.open(file.parent)
            runs[run.state["config"]["env"]] = run
        return [
            Cell(env, runs[env].path if env in runs else None, env in runs and runs[env].state["status"] == "complete")
            for env in self._envs
        ]


def play_grid(grid: Grid, config: EvalConfig, play: Callable[[EvalConfig, Path | None], object]) -> None:
    """Play what is missing of a grid, cell by cell.

    Args:
        grid: The grid.
        config: What its cells have in common.
        play: Evaluates a configuration, or goes on with the run of it that it is given.
    """
    for cell in grid.cells():
        if not cell.complete:
            own = {**config.model_dump(exclude_none=True), "env": cell.env, "out": grid.path}
            play(EvalConfig.parse(own), cell.run)
