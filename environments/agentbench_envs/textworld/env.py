"""TextWorld in words, on an engine and a generator of our own.

The rules, and what is won, lost and scored, agree with the original's games (`game`); the worlds and the sentences are
ours (`generate`, `text`). The reward of a turn is the change of the score; the original's `step` returns the score.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from agentbench.core.env import Env, Step
from agentbench.core.errors import Unsolvable, UsageError
from agentbench_envs.textworld.game import TextWorldGame, read_game
from agentbench_envs.textworld.generate import Family, Settings, Task, count, draw
from agentbench_envs.textworld.planner import Planner
from agentbench_envs.textworld.quest import Rewards
from agentbench_envs.textworld.text import UNKNOWN, Narrator

GoalDetail = Literal["none", "brief", "detailed"]

WORST = -2.0
"""The potential where a game cannot be won any more, and its lower bound elsewhere."""


class TextWorldEnv(Env):
    """Do something in a house that is known only from words.

    Args:
        family: `custom`, `simple`, `treasure`, `coin` or `cooking`: see `generate`.
        rooms, objects: Size of the world.
        length: Actions of a shortest solution (`custom`, `treasure`), rooms of the way (`coin`), ingredients
            (`cooking`).
        breadth: Facts that a goal joins (`custom`).
        distractors: Dead ends per room (`coin`), foods that serve nothing (`cooking`).
        rewards: `sparse` pays at the end, `balanced` for milestones too, `dense` for every step of a shortest solution.
        goal: How much is told: nothing (`none`), what to do (`brief`), or every step of it (`detailed`).
        show_admissible: Append the possible commands to every observation.
        compact: One short line per observation, with short names: for models of a million parameters.
        games: A folder of games that `tw-make` saved (`*.json`) instead of a generator; told in our sentences.
        split: `train`, `valid` or `test`.

    Raises:
        UsageError: An argument is out of its range, or a game file is broken.
    """

    def __init__(
        self,
        *,
        family: Family = "custom",
        rooms: int = 2,
        objects: int = 3,
        length: int = 4,
        breadth: int = 1,
        distractors: int = 0,
        rewards: Rewards = "sparse",
        goal: GoalDetail = "brief",
        show_admissible: bool = False,
        compact: bool = False,
        games: str | None = None,
        split: str = "train",
    ) -> None:
        if goal not in ("none", "brief", "detailed"):
            raise UsageError(f"found goal {goal!r}, expected none, brief or detailed")
        self.settings = Settings(family, rooms, objects, length, breadth, distractors, rewards, compact, split)
        self.settings.check()
        self.goal_detail, self.show_admissible, self.compact = goal, show_admissible, compact
        self._files = None if games is None else _files(Path(games).expanduser())
        self.task_count = count(self.settings) if self._files is None else len(self._files)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; the seed decides the game.

        Raises:
            UsageError: There are no options.
        """
        super().reset(seed=seed)
        if options:
            raise UsageError(f"unknown option {', '.join(map(repr, options))}; TextWorld takes none")
        self._load(int(self.np_random.integers(2**63)) if seed is None else seed)
        self._left = self._distance()
        goal = self._objective()
        told = self._scenery() if self.compact else "\n\n".join(filter(None, (goal, self._scenery())))
        return self._finish(told), self._info(valid=True, terms={}) | {"goal": goal}

    def _load(self, seed: int) -> None:
        self.task = self._task(seed)
        self.game = TextWorldGame(self.task.game)
        self.narrator = Narrator(self.task.game, self.task.notes)
        self._whole = max(1, len(self.task.plan))

    def _task(self, seed: int) -> Task:
        if self._files is not None:
            return _read(self._files[seed % len(self._files)])
        return draw(self.settings, seed % self.task_count if self.task_count else seed)

    def step(self, action: str) -> Step:
        """Play a command; what makes no sense or cannot be done changes nothing and costs nothing."""
        game, score, left = self.game, self.game.score, self._left
        done = game.act(action)
        terms: dict[str, float] = {}
        if done is None:
            told = UNKNOWN
        else:
            self._left = self._distance()
            told = self.narrator.answer(done, game.state, game.room)
            terms["score"] = float(game.score - score)
            if left is not None and self._left is not None:
                terms["progress"] = float(left - self._left)
        if game.lost:
            terms["lost"] = 1.0
        reward = terms.get("score", 0.0)
        if reward:
            told += f"\n\nYour score has changed by {reward:+g}: {game.score} of {game.max_score}."
        if game.won or game.lost:
            told += "\n\n*** You have won ***" if game.won else "\n\n*** You have lost ***"
        elif self.compact:
            told = self._scenery()
        info = self._info(valid=done is not None, terms=terms)
        return Step(self._finish(told), reward, game.won or game.lost, False, info)

    def _distance(self) -> int | None:
        """Return the length of a shortest plan from here; None where there is none, or none was found."""
        if not self.task.plan:
            return None  # A search that failed once would fail at every step, slowly.
        try:
            return self.task.planner.distance(self.game.state, self.game.done)
        except Unsolvable:
            return None

    def _objective(self) -> str:
        if self.goal_detail == "none":
            return ""
        if self.goal_detail == "brief" or not self.task.plan:
            return self.task.goal
        return f"{self.task.goal} Here is how: {'; then '.join(step.command for step in self.task.plan)}."

    def _scenery(self) -> str:
        game = self.game
        if self.compact:
            return f"{self.task.goal}\n{self.narrator.brief(game.state, game.room)}"
        return self.narrator.describe(game.state, game.room)

    def _finish(self, told: str) -> str:
        if not self.show_admissible or self.game.won or self.game.lost:
            return told
        return f"{told}\n\nPossible: {', '.join(self.game.admissible)}."

    def _info(self, *, valid: bool, terms: dict[str, float]) -> dict[str, Any]:
        game = self.game
        over = game.won or game.lost
        potential = WORST if self._left is None else max(WORST, -self._left / self._whole)
        return {
            "success": game.won,
            "valid": valid,
            "terms": terms,
            "potential": 0.0 if over else potential,
            "anchor": f"{game.room} {game.state:x} {game.done:x}",
            "admissible": [] if over else game.admissible,
            "score": game.score,
            "max_score": game.max_score,
        }

    def oracle(self) -> list[str]:
        """Return the commands of a shortest solution from here.

        Raises:
            Unsolvable: The game cannot be won any more, or the search ran out of its budget.
        """
        return [action.command for action in self.task.planner.plan(self.game.state, self.game.done)]

    def content(self, seed: int) -> str:
        """Name the game of a seed by its facts, names and quests."""
        game = self._task(seed).game
        names = game.scene.names
        facts = sorted((fact.name, *(names.get(each, each) for each in fact.arguments)) for fact in game.scene.facts)
        return hashlib.sha256(json.dumps([facts, game.objective]).encode()).hexdigest()

    def random_action(self) -> str:
        """Return one of the possible commands."""
        commands = self.game.admissible
        return commands[int(self.action_random.integers(len(commands)))]

    def snapshot(self) -> bytes:
        """Return facts, quests done and score."""
        return json.dumps([self.game.state, self.game.done, self.game.score]).encode()

    def restore(self, snapshot: bytes) -> None:
        """Go back to such a position."""
        self._load(self._seed)
        self.game.jump(*json.loads(snapshot))
        self._left = self._distance()


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UsageError(f"found no .json file in {folder}; expected games that tw-make saved")
    return files


@lru_cache(maxsize=64)
def _read(path: Path) -> Task:
    game = read_game(path)
    start = TextWorldGame(game)
    if start.won or start.lost:
        raise UsageError(f"{path} cannot be played: the game is over before the first command")
    planner = Planner(game)
    try:
        plan = planner.plan(game.scene.grounding.start, 0)
    except Unsolvable:
        plan = []
    return Task(game, planner, plan, game.objective, {})
