"""The game itself: ALFWorld's rules, exactly, without the planner that the original asks at every step.

The original translates a PDDL domain with Fast Downward and asks it which operators apply. The domain is always the
same, so its rules stand here as code: `World` is what never changes in a game, `State` what does, and `actions` lists
what may be done, under the very texts that the player types. Recorded episodes of the original replay exactly.

Rules that surprise, all of them the original's:

- receptacles at the player's own location are not offered by `go to`, yet they can be opened and used;
- an object can be examined only while it is held (a stray comma in the domain kills the other case);
- heating, cooling and cleaning work with a closed microwave, fridge or sinkbasin; a bathtubbasin cleans nothing;
- a lamp in a closed receptacle can be switched on; nothing can be switched off;
- nothing is ever full; slicing needs an object that was put down at this very location.

Source: Shridhar et al., ALFWorld (ICLR 2021, arXiv 2010.03768); alfworld 0.4.2, `alfred.pddl` and `alfred.twl2`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agentbench.core.errors import UsageError
from agentbench_envs.alfworld.goal import CHANGING, Alternative, alternatives
from agentbench_envs.alfworld.pddl import Fact, Problem, parse
from agentbench_envs.alfworld.text import NEW, NOTHING_HAPPENS, Wording, feedback, intro, shown_names

APPLIANCES: Final = {
    "clean": ("sinkbasintype", "cleanable", "isclean"),
    "heat": ("microwavetype", "heatable", "ishot"),
    "cool": ("fridgetype", "coolable", "iscool"),
}
"""For each treatment: the type of receptacle that gives it, who can get it, and what it makes true."""

OPPOSITE: Final = {"ishot": "iscool", "iscool": "ishot"}

_MOVING: Final = CHANGING | {"holdsany"}

KNIVES: Final = frozenset(("knifetype", "butterknifetype"))


class Action(NamedTuple):
    """One thing to do, in PDDL names."""

    verb: str
    """look, inventory, help, go, open, close, take, put, examine, use, clean, heat, cool or slice."""
    what: str = ""
    other: str = ""


class World:
    """What never changes in a game: who is who, where the receptacles stand, and what would win.

    Args:
        problem: Objects, first facts and goal.
        task: What the player is told to do, without the final full stop.
        wording: The generation of texts.

    Raises:
        UsageError: The problem is none of ALFWorld's.
    """

    def __init__(self, problem: Problem, task: str, wording: Wording = NEW) -> None:
        facts = problem.facts
        self.problem, self.task, self.wording = problem, task, wording
        self.names = shown_names({argument for _, *arguments in facts for argument in arguments})
        self.agent = _only("agent", [name for name, kind in problem.objects.items() if kind == "agent"])
        self.start = _only("start of the agent", _seconds(facts, "atlocation", self.agent))
        self.location_of: dict[str, str] = {}
        for _, receptacle, location in sorted(_facts(facts, "receptacleatlocation", 2)):
            if self.location_of.setdefault(receptacle, location) != location:
                raise UsageError(f"{receptacle} stands at two locations")
        self.receptacles = tuple(sorted(self.location_of))
        self.at: dict[str, tuple[str, ...]] = {}
        for receptacle in self.receptacles:
            location = self.location_of[receptacle]
            self.at[location] = (*self.at.get(location, ()), receptacle)
        self.openable = {name for _, name in _facts(facts, "openable", 1)}
        self.fixed = frozenset(fact for fact in facts if fact[0] not in _MOVING)
        self.kinds = _grouped(facts, "objecttype")
        self._receptacle_kinds = _grouped(facts, "receptacletype")
        self._accepts = _grouped(facts, "cancontain")
        self.goals: tuple[Alternative, ...] = alternatives(problem)
        if frozenset() in self.goals:
            raise UsageError("the goal holds whatever is done")
        self._everywhere: dict[str, dict[str, Action]] = {}

    def fits(self, thing: str, receptacle: str) -> bool:
        """Tell whether things of this kind may be put into receptacles of that kind."""
        kinds = self.kinds.get(thing, frozenset())
        return any(
            not kinds.isdisjoint(self._accepts.get(kind, ())) for kind in self._receptacle_kinds.get(receptacle, ())
        )

    def treats(self, verb: str, thing: str, receptacle: str) -> bool:
        """Tell whether this receptacle can clean, heat or cool this thing."""
        kind, able, _ = APPLIANCES[verb]
        return kind in self._receptacle_kinds.get(receptacle, ()) and (able, thing) in self.fixed

    def command(self, action: Action) -> str:
        """Return what the player types for an action."""
        name, other = self.names.get(action.what, ""), self.names.get(action.other, "")
        match action.verb:
            case "look" | "inventory" | "help":
                return action.verb
            case "go":
                return f"go to {name}"
            case "take":
                return f"take {name} from {other}"
            case "put":
                return self.wording.put.format(name, other)
            case "clean" | "heat" | "cool" | "slice":
                return f"{action.verb} {name} with {other}"
            case _:
                return f"{action.verb} {name}"

    def everywhere(self, location: str) -> dict[str, Action]:
        """Return the actions that only the location decides, by command: walking away, looking, and looking up."""
        found = self._everywhere.get(location)
        if found is None:
            actions = [Action("look"), Action("inventory"), *[Action("help")] * self.wording.has_help]
            actions += [
                Action("go", receptacle)
                for receptacle in self.receptacles
                if receptacle not in self.at.get(location, ())
            ]
            found = self._everywhere[location] = {self.command(action): action for action in actions}
        return found


@dataclass(slots=True)
class State:
    """What changes in a game."""

    facts: set[Fact]
    """What holds now, of the predicates that actions change."""
    location: str
    held: str | None
    contents: dict[str, set[str]]
    """The objects in each receptacle: the `inreceptacle` facts, by receptacle."""
    put_at: set[tuple[str, str]] = field(default_factory=set)
    """Object and location: the `objectatlocation` facts."""
    taken_from: set[tuple[str, str]] = field(default_factory=set)
    """Object and receptacle: what was taken out and not put back."""

    @classmethod
    def first(cls, world: World) -> "State":
        """Return the state in which a game begins."""
        facts = {fact for fact in world.problem.facts if fact[0] in _MOVING}
        held = _seconds(facts, "holds", world.agent)
        if len(held) > 1 or bool(held) != (("holdsany", world.agent) in facts):
            raise UsageError(f"the problem begins with {len(held)} objects in hand, expected one and holdsAny, or none")
        contents: dict[str, set[str]] = {receptacle: set() for receptacle in world.receptacles}
        for _, thing, receptacle in _facts(facts, "inreceptacle", 2):
            contents.setdefault(receptacle, set()).add(thing)
        put_at = {(thing, place) for _, thing, place in _facts(facts, "objectatlocation", 2)}
        return cls(facts, world.start, held[0] if held else None, contents, put_at)

    def is_open(self, receptacle: str) -> bool:
        """Tell whether an openable receptacle stands open."""
        return ("opened", receptacle) in self.facts


class AlfworldGame:
    """One game of ALFWorld, played by commands.

    Args:
        world: The room; games may share one.

    Example:
        >>> game = AlfworldGame.from_pddl(problem, "put a mug in desk")       # doctest: +SKIP
        >>> observation, admissible = game.reset()                            # doctest: +SKIP
        >>> observation, won, admissible = game.act("go to desk 1")           # doctest: +SKIP
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = State.first(world)
        self.won = self._reached()
        self._actions: dict[str, Action] | None = None

    @classmethod
    def from_pddl(cls, problem: str, task: str, wording: Wording = NEW) -> "AlfworldGame":
        """Read a game from PDDL.

        Args:
            problem: A problem of the domain `alfred`.
            task: What the player is told to do, without the final full stop.
            wording: `NEW` or `OLD` texts.

        Raises:
            UsageError: The text is no problem of ALFWorld.
        """
        return cls(World(parse(problem), task, wording))

    def reset(self) -> tuple[str, list[str]]:
        """Start over; return the first observation and the admissible commands, sorted."""
        self.state = State.first(self.world)
        self.won, self._actions = self._reached(), None
        return intro(self.world, self.state, self.world.task), self.admissible

    def act(self, command: str) -> tuple[str, bool, list[str]]:
        """Play one command.

        Args:
            command: One of the admissible commands; anything else changes nothing. Outer whitespace does not count,
                case does.

        Returns:
            The observation, whether the goal holds now, and the admissible commands.
        """
        action = self.actions.get(command.strip())
        if action is None:
            return NOTHING_HAPPENS, self.won, self.admissible
        self.apply(action)
        return feedback(self.world, self.state, *action), self.won, self.admissible

    @property
    def admissible(self) -> list[str]:
        """The commands that would do something now, sorted."""
        return sorted(self.actions)

    @property
    def actions(self) -> dict[str, Action]:
        """What may be done now, by command."""
        if self._actions is None:
            here = {self.world.command(action): action for action in self._here()}
            self._actions = {**self.world.everywhere(self.state.location), **here}
        return self._actions

    def _here(self) -> Iterator[Action]:
        """Yield what can be done with what is here or in hand."""
        world, state = self.world, self.state
        for receptacle in world.at.get(state.location, ()):
            yield from self._at(receptacle)
        if state.held is not None:
            yield Action("examine", state.held)
            if not KNIVES.isdisjoint(world.kinds.get(state.held, ())):
                for thing, place in state.put_at:
                    if place == state.location and ("sliceable", thing) in world.fixed:
                        yield Action("slice", thing, state.held)

    def _at(self, receptacle: str) -> Iterator[Action]:
        """Yield what can be done at one receptacle."""
        world, state, held = self.world, self.state, self.state.held
        yield Action("examine", receptacle)
        reachable = True
        if receptacle in world.openable:
            reachable = state.is_open(receptacle)
            yield Action("close" if reachable else "open", receptacle)
        for thing in state.contents[receptacle]:
            if reachable and held is None and ("pickupable", thing) in world.fixed:
                yield Action("take", thing, receptacle)
            if ("toggleable", thing) in world.fixed:
                yield Action("use", thing)
        if held is not None:
            if reachable and world.fits(held, receptacle):
                yield Action("put", held, receptacle)
            for verb in APPLIANCES:
                if world.treats(verb, held, receptacle):
                    yield Action(verb, held, receptacle)

    def apply(self, action: Action) -> None:
        """Carry out an action that may be done now."""
        state, (verb, what, other) = self.state, action
        facts = state.facts
        match verb:
            case "go":
                facts.remove(("atlocation", self.world.agent, state.location))
                state.location = self.world.location_of[what]
                facts.add(("atlocation", self.world.agent, state.location))
            case "open":
                facts.add(("opened", what))
            case "close":
                facts.remove(("opened", what))
            case "take":
                self._take(what, other)
            case "put":
                self._put(what, other)
            case "use":
                facts.add(("istoggled", what))
            case "slice":
                facts.add(("issliced", what))
            case "clean" | "heat" | "cool":
                made = APPLIANCES[verb][2]
                facts.add((made, what))
                facts.discard((OPPOSITE.get(made, ""), what))
            case _:
                return  # Looking changes nothing.
        self.won, self._actions = self._reached(), None

    def _take(self, thing: str, receptacle: str) -> None:
        state = self.state
        state.facts.remove(("inreceptacle", thing, receptacle))
        state.facts.discard(("objectatlocation", thing, state.location))
        state.facts.add(("holds", self.world.agent, thing))
        state.contents[receptacle].remove(thing)
        state.put_at.discard((thing, state.location))
        state.taken_from.add((thing, receptacle))
        state.held = thing

    def _put(self, thing: str, receptacle: str) -> None:
        state = self.state
        state.facts.remove(("holds", self.world.agent, thing))
        state.facts.add(("inreceptacle", thing, receptacle))
        state.facts.add(("objectatlocation", thing, state.location))
        state.contents[receptacle].add(thing)
        state.put_at.add((thing, state.location))
        state.taken_from.discard((thing, receptacle))
        state.held = None

    def _reached(self) -> bool:
        return any(goal <= self.state.facts for goal in self.world.goals)

    @property
    def conditions(self) -> tuple[int, int]:
        """How many conditions of the goal hold, and how many there are: of the way to win that is nearest."""
        counts = ((len(goal & self.state.facts), len(goal)) for goal in self.world.goals)
        return max(counts, key=lambda count: count[0] / count[1], default=(0, 1))


def _facts(facts: Iterable[Fact], predicate: str, arity: int) -> list[tuple[str, ...]]:
    return [fact for fact in facts if fact[0] == predicate and len(fact) == arity + 1]


def _seconds(facts: Iterable[Fact], predicate: str, first: str) -> list[str]:
    return [fact[2] for fact in facts if fact[0] == predicate and fact[1] == first]


def _grouped(facts: Iterable[Fact], predicate: str) -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for _, first, second in _facts(facts, predicate, 2):
        groups.setdefault(first, set()).add(second)
    return {first: frozenset(seconds) for first, seconds in groups.items()}


def _only(what: str, found: list[str]) -> str:
    if len(found) != 1:
        raise UsageError(f"found {len(found)} for the {what} of the problem, expected one")
    return found[0]
