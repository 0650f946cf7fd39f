"""ALFWorld in words: household tasks in a text world, played by commands such as `take mug 1 from desk 1`.

The game is `game.AlfworldGame`; this class chooses the task and adds what the contract asks for. Two things in the info
are computed from the whole state, which the player does not see: the potential, from the length of a shortest plan, and
the conditions of the goal that hold. They are for training; the observation shows neither.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from agentbench.core.env import Env, Step
from agentbench.core.errors import Unsolvable, UsageError
from agentbench_envs.alfworld import compact
from agentbench_envs.alfworld.files import data_folder, find_games, read_game
from agentbench_envs.alfworld.game import Action, AlfworldGame, World
from agentbench_envs.alfworld.planner import Planner
from agentbench_envs.alfworld.rooms import ROOMS
from agentbench_envs.alfworld.scenes import TASKS, Settings, draw_scene
from agentbench_envs.alfworld.text import NOTHING_HAPPENS, feedback

Source = Literal["synth", "original"]


class AlfworldEnv(Env):
    """Do what you are told to do in a room that you have to explore.

    Args:
        source: `synth` draws rooms of our own; `original` plays the games of the original's data.
        data: Folder of the original's data; None is `$ALFWORLD_DATA`.
        tasks, rooms: Kinds to draw, as sequences or separated by commas; see `scenes.TASKS` and `rooms.ROOMS`.
        receptacles, distractors, copies: Most receptacles of a room; objects that the task is not about; most objects
            of the wanted kind beyond those needed.
        count: Objects that a `gather` task brings together.
        closed, shared: Shares of openable receptacles that begin closed, and of receptacles that share a location.
        alike: Whether a room may hold several receptacles or objects of one kind.
        shortest, longest: Bounds on the turns of a shortest solution of drawn tasks.
        max_steps: Commands after which the game is cut off; the original's protocols allow 50.
        admissible: Whether observations end with the list of admissible commands, as some protocols show it. The list
            is in the info in any case.
        short: The dialect of `compact`, for tiny models; needs `alike=False` and `shared=0`.
        sight: Whether the first observation of that dialect shows what is not behind doors; nothing to search for then.
        split: Of `synth`: train, valid, test-seen or test-unseen. Of `original`: train, valid_seen or valid_unseen.

    Raises:
        UsageError: An argument is out of its range.
        PrerequisiteError: The original's data are not there.
    """

    def __init__(
        self,
        *,
        source: Source = "synth",
        data: str | None = None,
        tasks: str | Sequence[str] = TASKS,
        rooms: str | Sequence[str] = tuple(ROOMS),
        receptacles: int = 16,
        distractors: int = 12,
        copies: int = 1,
        count: int = 2,
        closed: float = 1.0,
        shared: float = 0.1,
        alike: bool = True,
        shortest: int = 1,
        longest: int | None = None,
        max_steps: int = 50,
        admissible: bool = False,
        short: bool = False,
        sight: bool = False,
        split: str = "train",
    ) -> None:
        if max_steps < 1:
            raise UsageError(f"found max_steps {max_steps}, expected at least 1")
        if source not in ("synth", "original"):
            raise UsageError(f"found the source {source!r}, expected 'synth' or 'original'")
        if sight and not short:
            raise UsageError("sight belongs to the short dialect: short=True")
        if short and (alike or shared or source == "original"):
            raise UsageError("short commands need rooms without equal things: alike=False and shared=0 of synth")
        self.max_steps = max_steps
        self.admissible = admissible
        self.short, self.sight = short, sight
        self._games: tuple[Path, ...] | None = None
        if source == "original":
            self._games = find_games(data_folder(data), split)
            self.task_count = len(self._games)
        else:
            self.settings = Settings(
                split, _words(tasks), _words(rooms), receptacles, distractors, copies, count, closed, shared, alike,
                shortest, max_steps if longest is None else min(longest, max_steps),
            ).check()  # fmt: skip

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Decides the task.
            options: None are known.

        Raises:
            UsageError: An option was given, or the game of this seed is broken.
        """
        super().reset(seed=seed)
        if options:
            raise UsageError(f"found the option {next(iter(options))!r}; ALFWorld has none")
        if seed is None:
            seed = int(self.np_random.integers(2**63))
        world = self._world(seed)
        self.game = AlfworldGame(world)
        self.steps = 0
        self._begun = frozenset(self.game.state.facts)
        self._planner = Planner(world)
        self._distances: dict[frozenset[tuple[str, ...]], float] = {}
        self._first = self._distance()
        self._potential = self._value()
        self._conditions = self._share()
        observation = compact.first_view(self.game, sight=self.sight) if self.short else self.game.reset()[0]
        info = self._info(valid=True, terms={})
        return self._shown(observation, info), info

    def _world(self, seed: int) -> World:
        if self._games is None:
            return draw_scene(self.settings, seed).world
        return read_game(self._games[seed % len(self._games)])

    def step(self, action: str) -> Step:
        """Play one command; one that is not admissible changes nothing and costs its turn."""
        chosen = self._commands().get(action.strip())
        self.steps += 1
        if chosen is not None:
            self.game.apply(chosen)
            self._potential = self._value()
        before, self._conditions = self._conditions, self._share()
        won = self.game.won
        terms = {
            "won": float(won),
            "conditions": self._conditions - before,
            "nothing": float(chosen is None),
        }
        info = self._info(valid=chosen is not None, terms=terms)
        cut = self.steps >= self.max_steps and not won
        return Step(self._shown(self._answer(chosen), info), float(won), won, cut, info)

    def _commands(self) -> dict[str, Action]:
        return compact.commands(self.game) if self.short else self.game.actions

    def _answer(self, action: Action | None) -> str:
        if self.short:
            return ("no\n" if action is None else "") + compact.view(self.game)
        return NOTHING_HAPPENS if action is None else feedback(self.game.world, self.game.state, *action)

    def _shown(self, observation: str, info: dict[str, Any]) -> str:
        if not self.admissible:
            return observation
        return f"{observation}\n\nAdmissible commands:\n" + "\n".join(info["admissible"])

    def _value(self) -> float:
        """Return minus the turns of a shortest plan from here, in units of the one from the start; 0 once won."""
        return -self._distance() / max(self._first, 1.0) or 0.0

    def _distance(self) -> float:
        """Return the turns of a shortest plan from here; as many as an episode has where none was found."""
        key = frozenset(self.game.state.facts)
        if key not in self._distances:
            try:
                self._distances[key] = float(len(self._planner.plan(self.game.state)))
            except Unsolvable:
                self._distances[key] = float(self.max_steps)
        return self._distances[key]

    def _share(self) -> float:
        reached, needed = self.game.conditions
        return reached / needed

    def _info(self, *, valid: bool, terms: dict[str, float]) -> dict[str, Any]:
        game = self.game
        return {
            "success": game.won,
            "valid": valid,
            "terms": terms,
            "potential": self._potential,
            "admissible": sorted(self._commands()),
            "anchor": self._anchor(),
            "goal": game.world.task,
            "conditions": self._conditions,
            "optimal": int(self._first),
            "steps": self.steps,
        }

    def _anchor(self) -> str:
        """Name the state by what differs from the start of this task; equal states of a task have equal anchors."""
        changed = sorted(self._begun ^ self.game.state.facts)
        return "; ".join(" ".join(fact) for fact in changed if fact[0] != "objectatlocation")

    def oracle(self) -> list[str]:
        """Return the commands of a shortest plan from here.

        Raises:
            Unsolvable: There is no plan, or none within the turns that are left.
        """
        plan = self._planner.plan(self.game.state)
        if len(plan) > self.max_steps - self.steps:
            raise Unsolvable(f"the shortest plan needs {len(plan)} turns, {self.max_steps - self.steps} are left")
        return [self._command(action) for action in plan]

    def _command(self, action: Action) -> str:
        return compact.command(action) if self.short else self.game.world.command(action)

    def content(self, seed: int) -> str:
        """Name the task of a seed: scenes by what is in them, games of the original by their file."""
        if self._games is None:
            return draw_scene(self.settings, seed).content
        file = self._games[seed % len(self._games)]
        return hashlib.sha256("/".join(file.parts[-3:]).encode()).hexdigest()

    def random_action(self) -> str:
        """Return one of the admissible commands."""
        commands = sorted(self._commands())
        return commands[int(self.action_random.integers(len(commands)))]


def _words(names: str | Sequence[str]) -> tuple[str, ...]:
    found = names.split(",") if isinstance(names, str) else names
    return tuple(name.strip() for name in found)
