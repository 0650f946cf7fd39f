"""What is told: rooms, things, and what an action led to. Our own sentences, in the order of TextWorld's."""

from collections.abc import Iterable

from agentbench_envs.textworld.game import Game
from agentbench_envs.textworld.ground import Action
from agentbench_envs.textworld.world import BACK

Listed = list[tuple[int, str]]
"""Things with the bit of their being there; 0 where nothing can move them."""

_DONE = {
    "take": "You pick up the {o} from the floor.",
    "take/c": "You take the {o} from the {c}.",
    "take/s": "You take the {o} from the {s}.",
    "drop": "You put the {o} down on the floor.",
    "insert": "You put the {o} into the {c}.",
    "put": "You put the {o} on the {s}.",
    "open/d": "You open the {d}.",
    "close/c": "You close the {c}.",
    "close/d": "You close the {d}.",
    "lock/c": "You lock the {c} with the {k}.",
    "lock/d": "You lock the {d} with the {k}.",
    "unlock/c": "You unlock the {c} with the {k}. It is still closed.",
    "unlock/d": "You unlock the {d} with the {k}. It is still closed.",
    "eat": "You eat the {f}. It was not bad.",
    "cook/stove": "You fry the {f}.",
    "cook/oven": "You roast the {f}.",
    "slice": "You slice the {f}.",
    "dice": "You dice the {f}.",
    "chop": "You chop the {f}.",
    "prepare": "You put the ingredients together. The meal is ready, and in your hands.",
}
"""By rule; the rules of genuine games have the same names."""

_LOOKS = ("fried", "roasted", "grilled", "burned", "sliced", "diced", "chopped")

UNKNOWN = "That makes no sense here, or cannot be done now. Nothing happens."


class Narrator:
    """Tells one game.

    Args:
        game: What is being played.
        notes: What examining a thing tells beyond the ordinary, by entity.
    """

    def __init__(self, game: Game, notes: dict[str, str]) -> None:
        self.scene, self.notes = game.scene, notes
        self.names, self.bits = self.scene.names, self.scene.grounding.bits
        self.inside: dict[str, Listed] = {}
        """What may be in or on each room, container and supporter, and in the inventory."""
        self.furniture: dict[str, list[str]] = {}
        self.ways: dict[str, list[tuple[str, str, str]]] = {}
        """Ways out of each room: the direction, the door or "", the room behind."""
        self.states: dict[str, Listed] = {}
        """Adjectives and states of each thing."""
        self._read()

    def _read(self) -> None:
        is_a, kinds, bits = self.scene.logic.is_a, self.scene.kinds, self.bits
        for fact in sorted(self.scene.grounding.fixed | bits.keys()):
            bit, (name, arguments) = bits.get(fact, 0), fact
            thing = arguments[0] if arguments else ""
            if name == "at" and (is_a(kinds[thing], "c") or is_a(kinds[thing], "s")):
                self.furniture.setdefault(arguments[1], []).append(thing)
            elif name in ("at", "in", "on") and len(arguments) == 2 and self.names.get(thing):
                self.inside.setdefault(arguments[1], []).append((bit, thing))
            elif name in BY_WAY and len(arguments) == 2:
                self._way(BY_WAY[name], *arguments)
            elif name in (*_LOOKS, "open", "closed", "locked") and len(arguments) == 1:
                self.states.setdefault(thing, []).append((bit, name))

    def _way(self, way: str, there: str, here: str) -> None:
        doors = {fact.arguments for fact in self.scene.facts if fact.name == "link" and len(fact.arguments) == 3}
        for start, direction, end in ((here, way, there), (there, BACK[way], here)):
            door = next((d for a, d, b in sorted(doors) if (a, b) == (start, end)), "")
            if (direction, door, end) not in self.ways.setdefault(start, []):
                self.ways[start].append((direction, door, end))

    def describe(self, state: int, room: str) -> str:
        """Describe a room as it is now."""
        lines = [f"-= {self.names.get(room, room).title()} =-", f"You are in the {self.names.get(room, room)}."]
        lines += [self._furniture(state, thing) for thing in self.furniture.get(room, ())]
        for way, door, _ in self.ways.get(room, ()):
            if door:
                lines.append(f"{_a(f'{self.state(state, door)} {self.names[door]}').capitalize()} leads {way}.")
        free = [way for way, door, _ in self.ways.get(room, ()) if not door]
        if free:
            lines.append(f"You can walk {_and(free)} freely.")
        floor = self.there(state, room)
        if floor:
            lines.append(f"On the floor: {_and(map(_a, floor))}.")
        return lines[0] + "\n" + " ".join(lines[1:])

    def _furniture(self, state: int, thing: str) -> str:
        name, things = self.names[thing], self.there(state, thing)
        if self.scene.logic.is_a(self.scene.kinds[thing], "s"):
            return f"You see {_a(name)}" + (f"; on it: {_and(map(_a, things))}." if things else " with nothing on it.")
        state_word = self.state(state, thing)
        if state_word != "open":
            return f"You see {_a(f'{state_word} {name}')}."
        return f"You see an open {name}" + (f"; in it: {_and(map(_a, things))}." if things else ", empty.")

    def state(self, state: int, thing: str) -> str:
        """Return whether a thing is open, closed or locked; "open" if it is none of them."""
        words = [word for bit, word in self.states.get(thing, ()) if state & bit == bit and word not in _LOOKS]
        return words[0] if words else "open"

    def there(self, state: int, place: str) -> list[str]:
        """Return what is in or on a place, by name with its adjectives."""
        return [self.name(state, thing) for bit, thing in self.inside.get(place, ()) if state & bit == bit]

    def name(self, state: int, thing: str) -> str:
        """Return a thing's name with what was done to it: `fried diced carrot`."""
        if thing not in self.states:
            return self.names[thing]
        words = [word for bit, word in self.states[thing] if state & bit == bit and word in _LOOKS]
        return " ".join([*words, self.names[thing]])

    def inventory(self, state: int) -> str:
        """Say what is carried."""
        things = self.there(state, "I")
        return f"You carry {_and(map(_a, things))}." if things else "You carry nothing."

    def answer(self, action: Action, state: int, room: str) -> str:
        """Say what an action led to.

        Args:
            action: What was done.
            state: The facts that hold after it.
            room: Where the player is after it.
        """
        kind = action.rule.partition("/")[0]
        if kind in ("go", "look"):
            return self.describe(state, room)
        if kind == "inventory":
            return self.inventory(state)
        if kind == "examine":
            return self._examine(next(action.things[v] for v in "otd" if v in action.things), state)
        if action.rule == "open/c":
            things = self.there(state, action.things["c"])
            return f"You open the {self.names[action.things['c']]}. " + (
                f"In it: {_and(map(_a, things))}." if things else "It is empty."
            )
        if kind == "cook" and "burned" in self.name(state, action.things["f"]):
            return f"You burn the {self.names[action.things['f']]}."
        told = _DONE.get(action.rule) or _DONE.get(kind) or f"Done: {action.command}."
        return told.format_map({v: self.names.get(thing, thing) for v, thing in action.things.items()})

    def _examine(self, thing: str, state: int) -> str:
        if thing in self.notes:
            return self.notes[thing]
        if thing in self.states and self.name(state, thing) == self.names[thing]:
            return f"The {self.names[thing]} is {self.state(state, thing)}."
        return f"It is {_a(self.name(state, thing))}, and nothing about it is remarkable."

    def brief(self, state: int, room: str) -> str:
        """Describe everything visible in one line of few characters, for models that read bytes."""
        things = self.there(state, room)
        for thing in self.furniture.get(room, ()):
            word = self.state(state, thing)
            inside = f"({' '.join(self.there(state, thing))})" if word == "open" else f" {word}"
            things.append(self.names[thing] + inside)
        ways = [
            way if not door else f"{way} {self.state(state, door)} {self.names[door]}"
            for way, door, _ in self.ways.get(room, ())
        ]
        return f"{self.names[room]}: {', '.join(things)}; {', '.join(ways)}; {' '.join(self.there(state, 'I'))}"


BY_WAY = {f"{way}_of": way for way in BACK}


def _a(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _and(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
