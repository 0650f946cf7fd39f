"""What the rooms of our own scenes are furnished with: a catalogue written for this project.

Kinds carry the original's names where it has one, so that texts read alike. What fits where, what can be treated and
which room holds what are ours, and deliberately simple: a thing belongs to a group, a receptacle takes groups.
"""

from typing import Final, NamedTuple


class Thing(NamedTuple):
    """A kind of object."""

    group: str
    affordances: frozenset[str] = frozenset()
    """Of pickupable, cleanable, heatable, coolable, sliceable, toggleable, isreceptacleobject."""


class Receptacle(NamedTuple):
    """A kind of place that objects are put in or on."""

    takes: frozenset[str]
    openable: bool = False


class Room(NamedTuple):
    """A kind of room."""

    receptacles: dict[str, tuple[int, int]]
    """Fewest and most of each kind."""
    things: tuple[str, ...]


_LETTERS: Final = {
    "p": "pickupable",
    "w": "cleanable",
    "h": "heatable",
    "c": "coolable",
    "s": "sliceable",
    "t": "toggleable",
    "v": "isreceptacleobject",
}


def _things(group: str, **letters: str) -> dict[str, Thing]:
    return {kind: Thing(group, frozenset(_LETTERS[letter] for letter in word)) for kind, word in letters.items()}


THINGS: Final = {
    **_things("food", apple="pwhcs", bread="phcs", egg="pwhcs", lettuce="pwcs", potato="pwhcs", tomato="pwhcs"),
    **_things("dish", bowl="pwcv", cup="pwhcv", mug="pwhcv", plate="pwhcv", glassbottle="p", winebottle="pc"),
    **_things("cutlery", butterknife="pw", fork="pw", knife="pw", ladle="pw", spatula="pw", spoon="pw"),
    **_things("pot", kettle="pw", pan="pwcv", pot="pwcv"),
    **_things("spice", peppershaker="p", saltshaker="p", dishsponge="pw"),
    **_things("paper", book="p", newspaper="p", pencil="p", pen="p", creditcard="p"),
    **_things("gadget", alarmclock="p", cd="p", cellphone="p", keychain="p", laptop="p", remotecontrol="p", watch="p"),
    **_things("decor", candle="p", statue="p", vase="p", tissuebox="p", wateringcan="p"),
    **_things("soft", pillow="p", teddybear="p", cloth="pw"),
    **_things("sport", baseballbat="p", basketball="p", tennisracket="p"),
    **_things("toiletry", soapbar="pw", soapbottle="p", spraybottle="p", toiletpaper="p"),
    **_things("linen", handtowel="p", towel="p"),
    **_things("lamp", desklamp="t", floorlamp="t"),
}
"""Kinds of objects."""


def _takes(groups: str, *, openable: bool = False) -> Receptacle:
    return Receptacle(frozenset(groups.split()), openable)


_ANY: Final = "food dish cutlery pot spice paper gadget decor soft toiletry"

RECEPTACLES: Final = {
    "armchair": _takes("paper gadget soft sport"),
    "bathtubbasin": _takes("toiletry soft"),
    "bed": _takes("paper gadget soft sport"),
    "cabinet": _takes("dish pot spice toiletry soft paper decor", openable=True),
    "coffeemachine": _takes("mug"),
    "coffeetable": _takes("paper gadget decor dish lamp"),
    "countertop": _takes(_ANY),
    "desk": _takes("paper gadget decor dish lamp"),
    "diningtable": _takes(_ANY),
    "drawer": _takes("cutlery paper gadget spice toiletry soft", openable=True),
    "dresser": _takes("paper gadget decor sport lamp"),
    "fridge": _takes("food dish pot", openable=True),
    "garbagecan": _takes("food paper spice decor toiletry"),
    "handtowelholder": _takes("linen"),
    "laundryhamper": _takes("soft linen"),
    "microwave": _takes("food dish", openable=True),
    "safe": _takes("paper gadget decor", openable=True),
    "shelf": _takes("paper gadget decor dish toiletry lamp"),
    "sidetable": _takes("paper gadget decor dish lamp"),
    "sinkbasin": _takes("food dish cutlery pot spice toiletry soft"),
    "sofa": _takes("paper gadget soft sport"),
    "stoveburner": _takes("pot"),
    "toaster": _takes("bread"),
    "toilet": _takes("toiletry decor paper"),
    "toiletpaperhanger": _takes("toiletpaper"),
    "towelholder": _takes("linen"),
    "tvstand": _takes("paper gadget decor"),
}
"""Kinds of receptacles; each takes groups of things, or single kinds."""

ROOMS: Final = {
    "kitchen": Room(
        {
            "countertop": (1, 3), "fridge": (1, 1), "microwave": (1, 1), "sinkbasin": (1, 1), "cabinet": (0, 6),
            "drawer": (0, 4), "stoveburner": (0, 4), "garbagecan": (0, 1), "diningtable": (0, 2),
            "coffeemachine": (0, 1), "toaster": (0, 1), "shelf": (0, 3),
        },
        tuple(kind for kind, thing in THINGS.items() if thing.group in ("food", "dish", "cutlery", "pot", "spice")),
    ),
    "bedroom": Room(
        {
            "bed": (1, 1), "desk": (1, 2), "drawer": (0, 6), "dresser": (0, 1), "shelf": (0, 4), "sidetable": (0, 2),
            "garbagecan": (0, 1), "laundryhamper": (0, 1), "safe": (0, 1), "armchair": (0, 1),
        },
        (
            "alarmclock", "book", "bowl", "cd", "cellphone", "cloth", "creditcard", "keychain", "laptop", "mug", "pen",
            "pencil", "pillow", "statue", "teddybear", "tissuebox", "vase", "baseballbat", "basketball",
            "tennisracket", "desklamp",
        ),
    ),
    "livingroom": Room(
        {
            "sofa": (1, 2), "coffeetable": (1, 1), "sidetable": (0, 3), "tvstand": (0, 1), "armchair": (0, 2),
            "shelf": (0, 4), "drawer": (0, 4), "cabinet": (0, 2), "diningtable": (0, 1), "desk": (0, 1),
            "garbagecan": (0, 1), "safe": (0, 1),
        },
        (
            "book", "bowl", "candle", "cellphone", "creditcard", "keychain", "laptop", "newspaper", "pillow", "plate",
            "remotecontrol", "statue", "tissuebox", "vase", "watch", "wateringcan", "floorlamp", "desklamp",
        ),
    ),
    "bathroom": Room(
        {
            "sinkbasin": (1, 2), "toilet": (1, 1), "countertop": (0, 1), "cabinet": (0, 4), "drawer": (0, 3),
            "shelf": (0, 2), "garbagecan": (0, 1), "bathtubbasin": (0, 1), "towelholder": (0, 2),
            "handtowelholder": (0, 2), "toiletpaperhanger": (0, 1),
        },
        (
            "candle", "cloth", "dishsponge", "handtowel", "soapbar", "soapbottle", "spraybottle", "tissuebox",
            "toiletpaper", "towel",
        ),
    ),
}  # fmt: skip
"""Kinds of rooms."""


def fits(thing: str, receptacle: str) -> bool:
    """Tell whether things of a kind may be put into receptacles of a kind."""
    return not RECEPTACLES[receptacle].takes.isdisjoint((thing, THINGS[thing].group))
