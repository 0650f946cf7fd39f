"""A TextWorld game and its state of play: what can be done, what it scores, when it is won or lost.

The rules of play are those of the compiled `.z8` games, which the original's own state tracking follows: after every
turn the quests are looked at in their order; one whose failing condition holds loses the game at once, one whose
winning condition holds pays its reward and is done; the game is won when every quest that is not optional is done. A
condition leaves out what the compiled game cannot test (`free`, `link`). The original's `.json` backend differs in one
point: it calls a game lost that can no longer be won.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import pydantic

from agentbench.core.errors import EpisodeOver, UsageError
from agentbench_envs.textworld.command import understand
from agentbench_envs.textworld.ground import PLAYER, Action, Grounding, each_bit, ground
from agentbench_envs.textworld.kitchen import Kitchen
from agentbench_envs.textworld.logic import Atom, Logic, parse

MOST_BYTES = 20_000_000
"""Of a game file; genuine ones have 20 to 150 kB, the coin collector's largest 400 kB."""

MOST_ENTITIES = 2_000

MOST_QUESTS = 500

MOST_REWARD = 1_000_000


class Model(pydantic.BaseModel):
    """What a game file says; fields that are not needed are passed over."""

    model_config = pydantic.ConfigDict(frozen=True)


class Thing(Model):
    """An entity where a fact names it."""

    name: str
    type: str


class Proposition(Model):
    """A fact as written in a file."""

    name: str
    arguments: list[Thing]


class Condition(Model):
    """What must hold together."""

    preconditions: list[Proposition]


class Event(Model):
    """An event of a quest."""

    condition: Condition


class QuestFile(Model):
    """A quest as written in a file."""

    reward: Annotated[int, pydantic.Field(ge=-MOST_REWARD, le=MOST_REWARD)]
    win_events: list[Event]
    fail_events: list[Event]
    optional: bool = False
    repeatable: bool = False


class Info(Model):
    """What an entity is called."""

    id: str
    type: str
    name: str | None = None


class Knowledge(Model):
    """The rules."""

    logic: str


class GameFile(Model):
    """A game as `tw-make` saves it."""

    version: Literal[1] = 1
    world: list[Proposition]
    quests: Annotated[list[QuestFile], pydantic.Field(max_length=MOST_QUESTS)]
    infos: list[tuple[str, Info]]
    KB: Knowledge
    objective: str | None = None


@dataclass(frozen=True, slots=True)
class Quest:
    """Conditions over facts: one of `wins` completes the quest, one of `fails` loses the game."""

    wins: tuple[frozenset[Atom], ...]
    fails: tuple[frozenset[Atom], ...] = ()
    reward: int = 1
    optional: bool = False
    repeatable: bool = False


class Goal(NamedTuple):
    """A quest compiled to masks; what can never hold is left out."""

    wins: tuple[int, ...]
    fails: tuple[int, ...]
    reward: int
    repeatable: bool

    @classmethod
    def of(cls, quest: Quest, grounding: Grounding) -> "Goal":
        """Compile a quest."""
        wins, fails = (
            tuple(mask for facts in events if (mask := grounding.mask(facts)) is not None)
            for events in (quest.wins, quest.fails)
        )
        return cls(wins, fails, quest.reward, quest.repeatable)


class Scene:
    """What a game plays in: its things, where they are at first, and everything that can be done with them.

    Args:
        logic: Types and rules.
        facts: What holds at the start.
        kinds: The type of each entity; constants (P, I) may be left out.
        names: What an agent calls each entity.

    Raises:
        UsageError: The player is nowhere or in several places, or the scene is far larger than any genuine one.
    """

    def __init__(self, logic: Logic, facts: Iterable[Atom], kinds: Mapping[str, str], names: Mapping[str, str]) -> None:
        self.logic, self.facts, self.names = logic, frozenset(facts), dict(names)
        self.kinds = {kind: kind for kind in logic.parents if kind[0].isupper()} | dict(kinds)
        self.grounding = ground(logic, self.facts, self.kinds, names)
        self.kitchen = Kitchen(self.facts, self.kinds, self.grounding)
        self.places = {bit: fact.arguments[1] for fact, bit in self.grounding.bits.items() if _is_place(fact)}
        """The room of each bit that says where the player is."""
        self.anywhere = sum(self.places)
        at = [fact for fact in self.facts if _is_place(fact)]
        if len(at) != 1 or at[0] not in self.grounding.bits:
            raise UsageError(f"found the player in {len(at)} places, expected one room, and rules for going")
        self.here = self._by_room()
        """What may be possible in each room, sorted by command."""

    @cached_property
    def adding(self) -> dict[int, list[Action]]:
        """The actions that bring each fact about, by its bit."""
        adding: dict[int, list[Action]] = {}
        for action in self.grounding.actions:
            for bit in each_bit(action.add):
                adding.setdefault(bit, []).append(action)
        return adding

    def room(self, state: int) -> str:
        """Return the room in which the player is."""
        return self.places[state & self.anywhere]

    def _by_room(self) -> dict[str, tuple[Action, ...]]:
        # The original's choice among equal commands comes last: most preconditions, then the first rule by name.
        actions = sorted(enumerate(self.grounding.actions), key=lambda at: (at[1].command, at[1].weight, -at[0]))
        return {
            room: tuple(action for _, action in actions if action.before & bit or not action.before & self.anywhere)
            for bit, room in self.places.items()
        }


class Game:
    """A scene, and what is to be done there. Nothing in it changes, so that any number may play it at once."""

    def __init__(self, scene: Scene, quests: Sequence[Quest], objective: str = "") -> None:
        self.scene, self.quests, self.objective = scene, tuple(quests), objective
        self.goals = tuple(Goal.of(quest, scene.grounding) for quest in quests)
        self.needed = sum(1 << k for k, quest in enumerate(quests) if quest.wins and not quest.optional)
        """Quests that must be done to win, one bit each."""
        paying = [quest for quest in quests if not quest.optional or quest.reward > 0]
        endless = any(quest.repeatable and quest.reward > 0 for quest in paying)
        self.max_score = float("inf") if endless else sum(quest.reward for quest in paying)
        """Infinite if a quest that pays can be repeated."""


class TextWorldGame:
    """A game being played.

    Example:
        >>> game = TextWorldGame.from_json("game.json")  # doctest: +SKIP
        >>> game.act(game.admissible[0])  # doctest: +SKIP
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.max_score = game.max_score
        self.reset()

    @classmethod
    def from_json(cls, path: str | Path) -> "TextWorldGame":
        """Load a game that `tw-make` saved.

        Raises:
            UsageError: There is no such file, it is no such game, or one that no generator makes: too large, with
                types or aliases that run in a circle, or with numbers out of range. The message is one line.
        """
        return cls(read_game(Path(path)))

    def reset(self) -> None:
        """Go back to the start."""
        self.state = self.game.scene.grounding.start
        self.score = 0
        self.done = 0
        self.won = self.lost = False
        self._look()
        self._judge()

    def act(self, command: str) -> Action | None:
        """Play a command; what is not admissible, or not a clear short form of it, changes nothing.

        Returns:
            What was done, the last of it for `drop all`; None if nothing was.

        Raises:
            EpisodeOver: The game is won or lost.
        """
        if self.won or self.lost:
            raise EpisodeOver("the game is over: reset it")
        done = None
        for meant in (command,) if command in self.options else understand(command, self.admissible):
            action = self.options[meant]
            if not self.game.scene.kitchen.refuses(action, self.state):
                self.state = self.state & ~action.delete | action.add
                self._look()
                done = action
        if done is not None:
            self._judge()
        return done

    @property
    def admissible(self) -> list[str]:
        """The commands that are possible now, sorted."""
        return list(self.options)

    def jump(self, state: int, done: int, score: int) -> None:
        """Go to a position of a game that goes on."""
        self.state, self.done, self.score = state, done, score
        self.won = self.lost = False
        self._look()

    def _look(self) -> None:
        state, scene = self.state, self.game.scene
        self.room = scene.places[state & scene.anywhere]
        # Of several actions with one command the last stays: see `Scene._by_room`.
        self.options = {a.command: a for a in scene.here[self.room] if state & a.before == a.before}

    def _judge(self) -> None:
        """Look at the quests, as the compiled game does after every turn."""
        state = self.state
        for k, goal in enumerate(self.game.goals):
            if self.done >> k & 1:
                continue
            for mask in goal.fails:
                if state & mask == mask:
                    self.lost = True
                    return
            for mask in goal.wins:
                if state & mask == mask:
                    self.score += goal.reward
                    self.done |= 0 if goal.repeatable else 1 << k
                    break
        needed = self.game.needed
        self.won = needed != 0 and self.done & needed == needed


def read_game(path: Path) -> Game:
    """Read and compile a game file; see `TextWorldGame.from_json`."""
    try:
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is larger than {MOST_BYTES} bytes")
        return compile_game(GameFile.model_validate_json(path.read_bytes()))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(f"{path} is no TextWorld game: {where}: {first['msg']}"[:500]) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UsageError as error:
        raise UsageError(f"{path} is no TextWorld game: {error}"[:500]) from None


def compile_game(file: GameFile) -> Game:
    """Compile what a file says."""
    logic = parse(file.KB.logic)
    kinds = {kind: kind for kind in logic.parents if kind[0].isupper()}
    facts = frozenset(_fact(fact, kinds, logic) for fact in file.world)
    if len(kinds) > MOST_ENTITIES:
        raise UsageError(f"found {len(kinds)} entities, expected at most {MOST_ENTITIES}")
    names = {key: info.name for key, info in file.infos if info.name is not None}
    quests = tuple(
        Quest(
            wins=tuple(_condition(event, kinds, logic) for event in quest.win_events),
            fails=tuple(_condition(event, kinds, logic) for event in quest.fail_events),
            reward=quest.reward,
            optional=quest.optional,
            repeatable=quest.repeatable,
        )
        for quest in file.quests
    )
    scene = Scene(logic, facts, kinds, names)
    for thing, kind in kinds.items():
        if thing not in names and thing != kind:
            raise UsageError(f"'infos' has no name for {thing[:40]!r}")
    return Game(scene, quests, file.objective or "")


def _condition(event: Event, kinds: dict[str, str], logic: Logic) -> frozenset[Atom]:
    """Return the facts of a condition that a compiled game can test."""
    facts = [_fact(fact, kinds, logic) for fact in event.condition.preconditions]
    if not facts:
        raise UsageError("a quest has an event without a condition")
    spoken = [fact for fact in facts if logic.can_say(fact.name, tuple(kinds[each] for each in fact.arguments))]
    return frozenset(spoken or facts)


def _fact(fact: Proposition, kinds: dict[str, str], logic: Logic) -> Atom:
    for thing in fact.arguments:
        if thing.type not in logic.parents:
            raise UsageError(f"{thing.name[:40]!r} is of the unknown type {thing.type[:40]!r}")
        if kinds.setdefault(thing.name, thing.type) != thing.type:
            raise UsageError(f"{thing.name[:40]!r} is of two types, {thing.type[:40]!r} and {kinds[thing.name]!r}")
    return Atom(fact.name, tuple(thing.name for thing in fact.arguments))


def _is_place(fact: Atom) -> bool:
    return fact.name == "at" and fact.arguments[:1] == (PLAYER,) and len(fact.arguments) == 2
