"""The genuine TextWorld, in an interpreter and a process of its own.

    python -P worker.py PROTOCOL        where PROTOCOL is the path of agentbench/remote/protocol.py

TextWorld (MIT licence, arXiv 1806.11532) seeds global generators, is not thread-safe, compiles an interpreter in C when
it is installed, and pins much: so it runs where it disturbs nobody. This file needs the standard library and TextWorld,
not AgentBench. One process serves one session; `draft`, `compile`, `load`, `reset` and `step` are its methods.
"""

import hashlib
import json
import resource
import runpy
import sys
from collections.abc import Callable, Mapping
from typing import Any

import textworld
import textworld.challenges
import textworld.generator
from textworld.generator import QuestGenerationError
from textworld.version import __version__

MEMORY = 4 * 2**30
"""Bytes of address space; a hostile game file must not take the machine's memory."""

WANTED = textworld.EnvInfos(
    description=True,
    inventory=True,
    admissible_commands=True,
    policy_commands=True,
    objective=True,
    score=True,
    max_score=True,
    moves=True,
    won=True,
    lost=True,
)

CHALLENGES = ("tw-simple", "tw-treasure_hunter", "tw-coin_collector", "tw-cooking")


class GenerationError(Exception):
    """No game comes from this seed; AgentBench's error of the same name on the other side."""


class UsageError(Exception):
    """The recipe makes no sense; AgentBench's error of the same name on the other side."""


class Table:
    """A session: a game that is being made, and a game that is being played."""

    def __init__(self) -> None:
        self._game: Any = None
        self._options: Any = None
        self._env: Any = None

    def methods(self) -> Mapping[str, Callable[..., Any]]:
        """Return what the owner may call."""
        names = ("draft", "draft_from", "compile", "load", "reset", "step", "close")
        return {name: getattr(self, name) for name in names}

    def draft(self, recipe: dict[str, Any], seed: int) -> dict[str, Any]:
        """Make a game, as `tw-make` does, without compiling it.

        Args:
            recipe: `challenge`, and its settings by the names of `tw-make`'s options.
            seed: `tw-make`'s --seed.

        Returns:
            `content`, a hash of the game's content; `walkthrough`, a list of commands.
        """
        settings = dict(recipe)
        challenge, goal = settings.pop("challenge"), settings.pop("goal")
        self._options = textworld.GameOptions()
        self._options.seeds = seed
        try:
            self._game = self._make(challenge, settings, goal)
        except QuestGenerationError as error:
            raise GenerationError(str(error)) from error
        if goal == "none":
            self._game.objective = ""
        return self._described()

    def draft_from(self, path: str) -> dict[str, Any]:
        """Take the game of a `.json` file instead of making one."""
        self._options = textworld.GameOptions()
        self._game = textworld.Game.load(path)
        return self._described()

    def _make(self, challenge: str, settings: dict[str, Any], goal: str) -> Any:
        options = self._options
        if challenge == "custom":
            length, breadth = settings["quest_length"], settings["quest_breadth"]
            options.nb_rooms, options.nb_objects = settings["world_size"], settings["nb_objects"]
            options.chaining.min_length = options.chaining.max_length = options.chaining.max_depth = length
            if breadth is not None:
                options.chaining.min_breadth = options.chaining.max_breadth = breadth
            options.grammar.only_last_action = goal == "brief"
            return textworld.generator.make_game(options)
        if challenge not in CHALLENGES:
            raise UsageError(f"found challenge {challenge!r}, expected custom or one of {', '.join(CHALLENGES)}")
        if challenge == "tw-simple":
            settings = {**settings, "goal": goal, "test": False}
        return textworld.challenges.CHALLENGES[challenge][1](settings=settings, options=options)

    def _described(self) -> dict[str, Any]:
        walkthrough = self._game.metadata.get("walkthrough") or self._game.walkthrough or []
        return {"content": _content(self._game), "walkthrough": list(walkthrough)}

    def compile(self, path: str) -> None:
        """Write the drafted game: a story file at `path`, which ends in `.z8`, and its `.json` beside it."""
        self._options.path, self._options.file_ext, self._options.force_recompile = path, ".z8", True
        textworld.generator.compile_game(self._game, self._options)

    def load(self, path: str) -> None:
        """Open a story file, which needs its `.json` beside it."""
        self.close()
        self._env = textworld.start(path, WANTED)

    def reset(self) -> dict[str, Any]:
        """Begin the game; return its state."""
        return _state(self._env.reset())

    def step(self, command: str) -> dict[str, Any]:
        """Send a command; return the state that follows."""
        return _state(self._env.step(command)[0])

    def close(self) -> None:
        """Close the game that is being played."""
        if self._env is not None:
            self._env.close()
            self._env = None


def _content(game: Any) -> str:
    """Name a game by what is where and what wins or loses, in the words that the player reads."""
    names = {key: info.name or key for key, info in game.infos.items()}

    def said(facts: Any) -> list[str]:
        return sorted(f"{fact.name}({', '.join(names.get(v.name, v.name) for v in fact.arguments)})" for fact in facts)

    def events(found: Any) -> list[list[str]]:
        return sorted(said(event.condition.preconditions) for event in found)

    quests = sorted([events(quest.win_events), events(quest.fail_events)] for quest in game.quests)
    return hashlib.sha256(json.dumps([said(game.world.facts), quests]).encode()).hexdigest()


def _state(state: Any) -> dict[str, Any]:
    known = ("feedback", "description", "inventory", "objective", "score", "max_score", "won", "lost", "moves")
    policy, admissible = state["policy_commands"], state["admissible_commands"]
    return {name: state[name] for name in known} | {"policy": list(policy), "admissible": list(admissible)}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    runpy.run_path(sys.argv[1])["serve"](lambda: Table().methods(), {"textworld": __version__})
