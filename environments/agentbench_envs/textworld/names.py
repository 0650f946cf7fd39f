"""Names of rooms and things; our own lists, in the spirit of a house."""

from typing import Final

ROOMS: Final = (
    "attic", "balcony", "basement", "bathroom", "bedroom", "cellar", "chapel", "closet", "corridor", "courtyard",
    "dining room", "foyer", "gallery", "garage", "garden", "greenhouse", "guest room", "gym", "hall", "kitchen",
    "laundry room", "library", "living room", "lounge", "nursery", "office", "pantry", "parlour", "playroom", "porch",
    "salon", "sauna", "scullery", "shed", "stable", "studio", "study", "sunroom", "terrace", "vault", "veranda",
    "washroom", "wine cellar", "workshop",
)  # fmt: skip

CONTAINERS: Final = (
    "basket", "box", "bureau", "cabinet", "case", "chest", "coffer", "crate", "cupboard", "drawer", "dresser", "hamper",
    "locker", "safe", "suitcase", "toolbox", "trunk", "wardrobe",
)  # fmt: skip

SUPPORTERS: Final = (
    "armchair", "bed", "bench", "bookshelf", "couch", "counter", "desk", "mantelpiece", "rack", "shelf", "stand",
    "stool", "table", "windowsill", "workbench",
)  # fmt: skip

DOORS: Final = (
    "door", "gate", "hatch", "portal", "screen door", "sliding door", "glass door", "wooden door", "iron gate",
    "trapdoor",
)  # fmt: skip

OBJECTS: Final = (
    "ball", "book", "bottle", "bowl", "brush", "button", "candle", "clock", "comb", "cup", "dictionary", "fan", "fork",
    "glove", "hammer", "hat", "kettle", "lamp", "letter", "map", "mirror", "mug", "newspaper", "notebook", "pen",
    "pencil", "pillow", "plate", "radio", "ring", "rope", "scarf", "shovel", "spoon", "teapot", "torch", "towel",
    "umbrella", "vase", "violin",
)  # fmt: skip

FOODS: Final = (
    "apple", "apricot", "banana", "biscuit", "bun", "cake", "carrot", "cheese", "cherry", "fig", "grape", "leek",
    "lemon", "lettuce", "melon", "mushroom", "onion", "orange", "parsnip", "peach", "pear", "pepper", "plum", "potato",
    "sandwich", "tomato", "turnip", "walnut",
)  # fmt: skip

INGREDIENTS: Final = (
    "aubergine", "cabbage", "carrot", "courgette", "leek", "mushroom", "onion", "parsnip", "potato", "pumpkin",
    "red pepper", "salmon", "sausage", "tomato", "tuna", "turnip", "yellow pepper",
)  # fmt: skip

LOOKS: Final = (
    "black", "blue", "brass", "broken", "copper", "dusty", "golden", "green", "heavy", "iron", "large", "light", "old",
    "orange", "plain", "polished", "purple", "red", "round", "rusty", "silver", "small", "square", "stone", "white",
    "wooden", "yellow",
)  # fmt: skip

KEYS: Final = ("key", "latchkey", "passkey", "keycard")

BY_KIND: Final = {
    "r": ROOMS, "c": CONTAINERS, "s": SUPPORTERS, "d": DOORS, "o": OBJECTS, "f": FOODS, "k": KEYS
}  # fmt: skip
"""Nouns for each type."""

SHORT: Final = {
    "r": ("den", "hall", "loft", "yard"), "c": ("box", "bag", "tin"), "s": ("bed", "desk"), "d": ("gate",),
    "o": ("pen", "cup", "hat", "map"), "f": ("fig", "bun", "pea"), "k": ("key",),
}  # fmt: skip
"""The same for models that read bytes."""
