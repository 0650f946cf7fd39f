"""Games of the genuine TextWorld: Microsoft's generator, Inform 7's text, and the Z-machine, behind our contract.

The engine runs in a worker process (`worker.py`), one per environment; this side decides which game a seed means,
what the agent is shown and what it is paid. What upstream harnesses get wrong is settled here: a turn is paid the
*change* of the score, a lost game is not a won one, and the observation is everything that the game answered.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from agentbench.core.env import Env, Step
from agentbench.core.errors import PrerequisiteError, Unsolvable, UsageError
from agentbench.remote import protocol
from agentbench.remote.interpreter import python_with
from agentbench.remote.stdio import Process, Processes
from agentbench_envs.textworld.stories import LOAD_SECONDS, SPLITS, Recipe, Shelf, Story, brought, seeds_of

TEXTWORLD: Final = "1.7"
"""The version that games are made and played with; another one makes other games of the same seeds."""

STEP_SECONDS: Final = 30.0
"""How long an answer may take before the interpreter counts as hung."""

LONGEST_COMMAND: Final = 120
"""Characters of a command that are sent; the interpreter reads no more than 198."""

UNKNOWN: Final = "That's not a verb I recognise."
"""What the game says to what it does not know, and we to what it must not hear."""

SKILLS: Final = ("open", "cook", "cut", "drop")
"""What a cooking game may ask for; also whether the inventory is small (`drop`)."""

NO_PLAN: Final = -2.0
"""The potential where the quest cannot be finished any more; also the lowest of all potentials."""

META: Final = frozenset(
    (
        *("again", "g", "oops", "o", "undo", "quit", "q", "restart", "restore", "save", "score", "version", "verify"),
        *("script", "unscript", "transcript", "notify", "nouns", "pronouns"),
        *("brief", "normal", "verbose", "long", "superbrief", "short"),
        *("print_state", "enable", "disable", "restrict"),
    )
)
"""Verbs that speak to the interpreter and not to the world: they would write files, leave the game, or cheat."""

_COMMAND = re.compile(r"[a-z0-9][a-z0-9' -]*")
_STATUS = re.compile(r"\n*>?\s{20,}-= .*\Z", re.DOTALL)
_ENDING = re.compile(r"\n+Would you like to RESTART.*\Z", re.DOTALL)
_MARGIN = re.compile(r"[ \t]*\n[ \t]*")
_BLANK = re.compile(r"\n{3,}")

Family = Literal["custom", "simple", "treasure", "coin", "cooking"]
Goal = Literal["none", "brief", "detailed"]

CHALLENGES: Final = {
    "custom": "custom",
    "simple": "tw-simple",
    "treasure": "tw-treasure_hunter",
    "coin": "tw-coin_collector",
    "cooking": "tw-cooking",
}
"""Our names of the families, which the native engine has too, and those of `tw-make`."""

MOST_COIN_ROOMS: Final = 100

COIN_LEVELS: Final = ("1 to 100", "101 to 150", "or 201 to 233")
"""The levels of `coin` that have no more rooms."""

COOKING_ROOMS: Final = (1, 6, 9, 12)

MOST_INGREDIENTS: Final = 5

GOALS: Final = ("none", "brief", "detailed")


class GenuineEnv(Env):
    """A game of TextWorld, played in its own interpreter.

    Args:
        family: `custom` or one of `tw-make`'s challenges: `simple`, `treasure`, `coin`, `cooking`.
        rooms, objects: Size of the world (`custom`); rooms also of `cooking`: 1, 6, 9 or 12.
        length, breadth: Steps and branches of the quest (`custom`); `tw-make` draws the breadth if it is None.
        rewards: `dense`, `balanced` or `sparse` (`simple`).
        level: 1 to 30 (`treasure`) or 1 to 300 (`coin`), of which TextWorld makes those of up to 100 rooms.
        ingredients, skills: Of `cooking`: ingredients to find, and any of `open`, `cook`, `cut`, `drop`, joined by `+`.
        goal: How much of the objective the agent is told.
        show_admissible: Append the possible commands to every observation.
        games: A folder of games of the user's own, instead of a generator.
        split: `train`, `valid`, `test`, or `all`.

    Raises:
        PrerequisiteError: TextWorld is not there.
        UsageError: An argument is out of its range, or a game of the user's cannot be played.
    """

    def __init__(
        self,
        *,
        family: Family = "custom",
        rooms: int = 2,
        objects: int = 3,
        length: int = 4,
        breadth: int | None = None,
        rewards: Literal["dense", "balanced", "sparse"] = "dense",
        level: int = 5,
        ingredients: int = 1,
        skills: str = "",
        goal: Goal = "detailed",
        show_admissible: bool = False,
        games: str | None = None,
        split: str = "train",
    ) -> None:
        chosen = set(filter(None, skills.split("+")))
        _require(chosen <= set(SKILLS), "skills", skills, SKILLS)
        _require(family in CHALLENGES, "family", family, CHALLENGES)
        _require(goal in GOALS, "goal", goal, GOALS)
        _require(split in SPLITS, "split", split, SPLITS)
        if family == "treasure":
            _require(1 <= level <= 30, "level", level, ("1 to 30",))
        elif family == "coin":
            _require(1 <= coin_rooms(level) <= MOST_COIN_ROOMS, "level", level, COIN_LEVELS)
        elif family == "cooking":
            _require(rooms in COOKING_ROOMS, "rooms", rooms, map(str, COOKING_ROOMS))
            _require(1 <= ingredients <= MOST_INGREDIENTS, "ingredients", ingredients, (f"1 to {MOST_INGREDIENTS}",))
        elif family == "custom":
            for name, size in (
                ("rooms", rooms),
                ("objects", objects),
                ("length", length),
                ("breadth", 1 if breadth is None else breadth),
            ):
                _require(size >= 1, name, size, ("at least 1",))
        settings: dict[str, dict[str, Any]] = {
            "custom": {"world_size": rooms, "nb_objects": objects, "quest_length": length, "quest_breadth": breadth},
            "simple": {"rewards": rewards},
            "treasure": {"level": level},
            "coin": {"level": level},
            "cooking": {"recipe": ingredients, "take": ingredients, "go": rooms, "recipe_seed": 0}
            | {"split": None if split == "all" else split}
            | {skill: skill in chosen for skill in SKILLS},
        }
        self.recipe = Recipe(CHALLENGES[family], goal, tuple(settings[family].items()))
        self.split = split
        self.show_admissible = show_admissible
        self._session = _processes().session(LOAD_SECONDS)
        self._shelf = Shelf(self._session.process.hello["textworld"])
        self._brought = None if games is None else self._bring(Path(games))
        seeds = seeds_of(self.recipe, split) if self._brought is None else self._brought
        self.task_count = None if seeds is None else len(seeds)

    def _bring(self, games: Path) -> tuple[Story, ...]:
        try:
            return brought(games, self.split, self._session, self._shelf)
        except UsageError:
            self.close()
            raise

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Open the game of a seed.

        Raises:
            Failure: The interpreter broke or hung; also in `step`.
        """
        super().reset(seed=seed)
        story = self._story(int(self.np_random.integers(2**63)) if seed is None else seed)
        self._session.call("load", LOAD_SECONDS, path=str(story.path))
        self._state = self._session.call("reset", LOAD_SECONDS)
        self._longest = max(1, len(self._state["policy"]))
        goal = self._state["objective"].strip() if self.recipe.goal != "none" else ""
        shown = "\n\n".join(filter(None, (goal, self._state["description"])))
        return self._show(shown), {**self._info(valid=True, terms={}), "goal": goal}

    def _story(self, seed: int) -> Story:
        if self._brought is not None:
            return self._brought[seed % len(self._brought)]
        return self._shelf.made(self._session, self.recipe, seed, self.split)

    def step(self, action: str) -> Step:
        """Say a command to the game; what it must not hear is answered as what it does not know."""
        before = self._state
        command = command_of(action)
        if command is None:
            return Step(self._show(UNKNOWN), 0.0, False, False, self._info(valid=False, terms=_terms()))
        after = self._state = self._session.call("step", STEP_SECONDS, command=command)
        valid = command in before["admissible"] or after["moves"] > before["moves"]
        gained = float(after["score"] - before["score"])
        terms = _terms(gained, self._progress(before, after), after["lost"])
        over = after["won"] or after["lost"]
        return Step(self._show(after["feedback"], over=over), gained, over, False, self._info(valid=valid, terms=terms))

    @staticmethod
    def _progress(before: dict[str, Any], after: dict[str, Any]) -> int:
        """The sign of the change in steps to go: TextWorld's intermediate reward, also where no plan is left."""
        if after["won"] or after["lost"]:
            return 1 if after["won"] else -1
        there, here = _to_go(before), _to_go(after)
        return (here < there) - (here > there)

    def _show(self, text: str, *, over: bool = False) -> str:
        shown = clean(text)
        if self.show_admissible and not over:
            shown += f"\n\nPossible: {', '.join(self._state['admissible'])}."
        return shown

    def _info(self, *, valid: bool, terms: dict[str, float]) -> dict[str, Any]:
        state = self._state
        over = state["won"] or state["lost"]
        return {
            "success": bool(state["won"]),
            "valid": valid,
            "terms": terms,
            "potential": 0.0 if over else max(NO_PLAN, -_to_go(state) / self._longest),
            "admissible": [] if over else state["admissible"],
            "anchor": f"{clean(state['description'])}\n{clean(state['inventory'])}",
            "score": state["score"],
            "max_score": state["max_score"],
            "lost": bool(state["lost"]),
        }

    def oracle(self) -> list[str]:
        """Return the commands of TextWorld's own winning policy from here.

        Raises:
            Unsolvable: TextWorld knows no way to win any more.
        """
        if not self._state["policy"]:
            raise Unsolvable("TextWorld knows no way to finish the quest from here")
        return list(self._state["policy"])

    def content(self, seed: int) -> str:
        """Name the game of a seed by what is where and what wins or loses."""
        return self._story(seed).content

    def random_action(self) -> str:
        """Return one of the admissible commands."""
        return str(self.action_random.choice(self._state["admissible"]))

    def close(self) -> None:
        """End the session; its process serves the next one."""
        self._session.close()


def coin_rooms(level: int) -> int:
    """Return how many rooms a level of `coin` has: its way, and none, one or two dead ends beside each of them."""
    return (1 + (level - 1) // 100) * (1 + (level - 1) % 100) if 1 <= level <= 300 else 0


def clean(text: str) -> str:
    """Return what the game said, without prompt, status line, the question after the end, and rows of blank lines."""
    said = _MARGIN.sub("\n", _ENDING.sub("", _STATUS.sub("", text)))
    return _BLANK.sub("\n\n", said).strip()


def command_of(action: str) -> str | None:
    """Return the command that is sent for an action, or None for what the game must not hear.

    One line of at most `LONGEST_COMMAND` letters, digits, spaces, hyphens and apostrophes: no full stop or comma, for
    the parser would read several commands; no verb for the interpreter (`META`), and none of TextWorld's own
    (`tw-...`), which print the hidden state.
    """
    command = " ".join(action[: 2 * LONGEST_COMMAND].lower().split())
    if len(action) > 2 * LONGEST_COMMAND or len(command) > LONGEST_COMMAND or not _COMMAND.fullmatch(command):
        return None
    verbs = [part.split()[0] for part in re.split(r"\bthen\b", command) if part.strip()]
    return None if any(verb in META or verb.startswith("tw-") for verb in verbs) else command


def _terms(score: float = 0.0, progress: int = 0, lost: object = False) -> dict[str, float]:
    return {"score": score, "progress": float(progress), "lost": float(bool(lost))}


def _to_go(state: dict[str, Any]) -> float:
    """Steps of the winning policy; infinitely many where there is none."""
    return float(len(state["policy"])) or float("inf")


def _require(holds: bool, name: str, value: object, expected: Any) -> None:
    if not holds:
        raise UsageError(f"found {name} {value!r}, expected {', '.join(expected)}")


@lru_cache(maxsize=4)
def _processes_of(python: str) -> Processes:
    """Return the workers of an interpreter; one session each, for TextWorld is not thread-safe."""
    here = Path(__file__).with_name("worker.py")
    command = [python, "-P", str(here), protocol.__file__]

    def start() -> Process:
        # Sets are walked in the order of their hashes: one hash seed, one game per seed.
        process = Process(command, title="TextWorld", environ={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"})
        found = process.hello["textworld"]
        if not found.startswith(f"{TEXTWORLD}."):
            process.kill()
            raise PrerequisiteError(f"{python} has TextWorld {found}, expected {TEXTWORLD}")
        return process

    return Processes(start, spare=4)


def _processes() -> Processes:
    return _processes_of(python_with("textworld"))
