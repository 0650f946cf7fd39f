"""What the game says: the original's sentences (`alfred.twl2`), in both of its generations.

Every sentence is a function of the state after the action. A few habits of the original's text engine are kept on
purpose: `a` stands before vowels too, lists have a comma before `and` even for two things, the overview of the room is
only ever shown at the start, and things lying `next to` receptacles are an artefact (see `_beside`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from agentbench_envs.alfworld.game import State, World

NOTHING_HAPPENS: Final = "Nothing happens."

_HELP: Final = (
    ("look", "look around your current location"),
    ("inventory", "check your current inventory"),
    ("go to (receptacle)", "move to a receptacle"),
    ("open (receptacle)", "open a receptacle"),
    ("close (receptacle)", "close a receptacle"),
    ("take (object) from (receptacle)", "take an object from a receptacle"),
    ("move (object) to (receptacle)", "place an object in or on a receptacle"),
    ("examine (something)", "examine a receptacle or an object"),
    ("use (object)", "use an object"),
    ("heat (object) with (receptacle)", "heat an object using a receptacle"),
    ("clean (object) with (receptacle)", "clean an object using a receptacle"),
    ("cool (object) with (receptacle)", "cool an object using a receptacle"),
    ("slice (object) with (object)", "slice an object using a sharp object"),
)


class Wording(NamedTuple):
    """What differs between the generations of the original's games."""

    put: str = "move {} to {}"
    """The command that puts an object down."""
    has_put: str = "You move the {} to the {}."
    arrives_at_location: bool = False
    """True: `You arrive at loc 7.`; False: `You arrive at desk 1.`"""
    has_help: bool = True


NEW: Final = Wording()
"""Games made by alfworld 0.4 (data 2.1.3)."""

OLD: Final = Wording("put {} in/on {}", "You put the {} in/on the {}.", arrives_at_location=True, has_help=False)
"""Games made by alfworld 0.3 and before (data 2.1.1 and 2.1.2)."""


def shown_names(ids: Collection[str]) -> dict[str, str]:
    """Return what the player sees of each PDDL name: its class and a number, counted down along the sorted ids.

    Example:
        >>> shown_names(["mug_bar_a", "mug_bar_b", "sink_bar_c_bar_sinkbasin"])
        {'mug_bar_a': 'mug 2', 'mug_bar_b': 'mug 1', 'sink_bar_c_bar_sinkbasin': 'sinkbasin 1'}
    """
    names, left = {}, Counter(_class(name) for name in ids)
    for name in sorted(ids):
        kind = _class(name)
        names[name] = f"{kind} {left[kind]}" if kind else f"{name} "
        left[kind] -= 1
    return names


def _class(name: str) -> str:
    """Return the class in a name; the original finds none in a name without coordinates."""
    kind, bar, _ = name.partition("_bar_")
    return (kind + ("basin" if "basin" in name else "")) if bar else ""


def listed(names: Sequence[str]) -> str:
    """Join names as the original does."""
    if len(names) < 2:
        return names[0] if names else "nothing"
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def intro(world: "World", state: "State", task: str) -> str:
    """Return the first observation."""
    around = _around(world, state) or f"{_middle(world, world.receptacles)}."
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{around}\n\nYour task is to: {task}."


def feedback(world: "World", state: "State", verb: str, what: str, other: str) -> str:
    """Return what the game answers to an action that was carried out.

    Args:
        world: The room.
        state: Its state after the action.
        verb: The action: `go`, `open`, `put` ...
        what: Its first argument, or nothing.
        other: Its second argument, or nothing.
    """
    name, second = world.names.get(what, ""), world.names.get(other, "")
    match verb:
        case "look":
            return _around(world, state) or f"{_middle(world, ())}."
        case "inventory":
            return f"You are carrying: {_some(world, [state.held])}." if state.held else _EMPTY_HANDED
        case "help":
            return "Available commands:\n" + "".join(map(_help_line, _HELP))
        case "go":
            there = world.names[state.location] if world.wording.arrives_at_location else name
            return f"You arrive at {there}. {_receptacle(world, state, what)}"
        case "open":
            return f"You open the {name}. {_receptacle(world, state, what)}"
        case "close":
            return f"You close the {name}."
        case "take":
            return f"You pick up the {name} from the {second}."
        case "put":
            return world.wording.has_put.format(name, second)
        case "use":
            return f"You turn on the {name}."
        case "slice":
            return f"You sliced the {name} with the {second}."
        case "examine":
            return _receptacle(world, state, what) if what in world.location_of else _object(world, state, what)
        case _:
            return f"You {verb} the {name} using the {second}."


_EMPTY_HANDED: Final = "You are not carrying anything."


def _help_line(line: tuple[str, str]) -> str:
    command, meaning = line
    # The original's own columns: one line of its table is two characters short.
    width = 32 if command.startswith("move") else 34
    return f"  {command + ':':<{width}}{meaning}\n"


def _some(world: "World", things: Iterable[str]) -> str:
    return listed([f"a {world.names[thing]}" for thing in sorted(things)])


def _middle(world: "World", receptacles: Iterable[str]) -> str:
    seen = _some(world, receptacles)
    return f"You are in the middle of a room. Looking quickly around you, you see {seen}"


def _around(world: "World", state: "State") -> str:
    """Return what a look shows at receptacles; empty where there are none."""
    here = world.at.get(state.location, ())
    if not here:
        return ""
    facing = listed([world.names[receptacle] for receptacle in here])
    return f"You are facing the {facing}. Next to it, you see {_beside(world, state, here)}."


def _beside(world: "World", state: "State", here: Sequence[str]) -> str:
    """Name what was once put down here and taken out of one of the receptacles here: at this place, yet not in it.

    That is what the original's rule amounts to where receptacles share a location; it knows that an object is *not* in
    a receptacle only after it was taken out of it.
    """
    lying = sorted(thing for thing, place in state.put_at if place == state.location)
    return listed([f"a {world.names[thing]}" for thing in lying for rec in here if (thing, rec) in state.taken_from])


def _receptacle(world: "World", state: "State", receptacle: str) -> str:
    name = world.names[receptacle]
    if receptacle in world.openable and not state.is_open(receptacle):
        return f"The {name} is closed."
    contents = _some(world, state.contents[receptacle])
    if receptacle in world.openable:
        return f"The {name} is open. In it, you see {contents}."
    return f"On the {name}, you see {contents}."


def _object(world: "World", state: "State", thing: str) -> str:
    name = world.names[thing]
    if ("isreceptacleobject", thing) in world.fixed:
        inside = (fact[1] for fact in world.fixed if fact[0] == "inreceptacleobject" and fact[2] == thing)
        return f"This is a normal {name}. In it, you see {_some(world, inside)}."
    clean, hot, cool, sliced, on = (
        (predicate, thing) in state.facts for predicate in ("isclean", "ishot", "iscool", "issliced", "istoggled")
    )
    if not (clean or hot or cool):
        if on and ("toggleable", thing) in world.fixed:
            return f"This {name} is on."
        sliced = sliced and ("sliceable", thing) in world.fixed
        return f"This is a sliced {name}." if sliced else f"There's nothing special about {name}."
    if cool and not (clean or hot or sliced):
        return f"This is a cold {name}."
    warmth = ["hot"] if hot else ["cool"] if cool else []
    adjectives = [" and ".join([*warmth, *["clean"] * clean]), *["sliced"] * sliced]
    return f"This is a {' '.join(adjectives)} {name}."
