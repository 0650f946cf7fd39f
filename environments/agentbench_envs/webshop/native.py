"""What a person does in a browser, as words: the actions and the view of the browser's own action space.

click[NAME]          a button, link or box, by its accessible name (in any case) or its id
type[NAME][words]    puts words into a box
scroll[down]         half a window; scroll[up]
back                 the page before, as the browser's button does
goto[ADDRESS]        a page of this visit, by the address that the view shows

No name, text or address has more than 10,000 characters: browsers give up on those that are far longer.
"""

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from agentbench.sandbox.browser import Element
from agentbench_envs.webshop.markup import BOX
from agentbench_envs.webshop.pages import SEARCH
from agentbench_envs.webshop.session import parse

BOXES: Final = ("textbox", "searchbox")
CLICKABLE: Final = ("button", "link", "DisclosureTriangle", *BOXES)
LONGEST: Final = 1000
"""Characters of a name or an address that the view shows."""
STATES: Final = ("value", "pressed", "focused")

_PLAIN = re.compile(r"(click|scroll|goto)\[([^\n]{1,10000})\]|(back)")
_TYPE = re.compile(r"type\[([^\[\]\n]{1,10000})\]\[([^\n]{0,10000})\]")


class Deed(NamedTuple):
    """An action, taken apart."""

    verb: str
    target: str = ""
    words: str = ""


def deed(action: str) -> Deed | None:
    """Take an action apart; None if it is none.

    Example:
        >>> deed("type[search the shop][lip balm]")
        Deed(verb='type', target='search the shop', words='lip balm')
    """
    said = action.strip()
    if typed := _TYPE.fullmatch(said):
        return Deed("type", typed[1], typed[2])
    plain = _PLAIN.fullmatch(said)
    return None if plain is None else Deed(plain[1] or plain[3], plain[2] or "")


def find(elements: Sequence[Element], name: str, roles: Sequence[str] = CLICKABLE) -> Element | None:
    """Return the element with this id, else the first one with this name; those without an id cannot be used."""
    usable = [element for element in elements if element.id and element.role in roles]
    wanted = name.strip().casefold()
    by_id = (element for element in usable if element.id == name.strip())
    by_name = (element for element in usable if element.name.strip().casefold() == wanted)
    return next(by_id, None) or next(by_name, None)


def written(elements: Sequence[Element], address: str) -> str:
    """Write an accessibility tree in lines, what can be used with its id.

    Args:
        elements: In reading order.
        address: Of the page, as `goto` takes it.
    """
    lines = [f"page {_cut(address)}"]
    for element in elements[1:]:
        if element.role == "ListMarker":
            continue
        role = "text" if element.role == "StaticText" else element.role
        number = f"[{element.id}] " if element.id and element.role in CLICKABLE else ""
        states = [f" {key}={json.dumps(_cut(element.states[key]), ensure_ascii=False)}" for key in STATES
                  if element.states.get(key) not in (None, "", False, "false")]  # fmt: skip
        name = f" {json.dumps(_cut(element.name), ensure_ascii=False)}" if element.name else ""
        lines.append(f"{'  ' * (element.depth - 1)}{number}{role}{name}{''.join(states)}")
    return "\n".join(lines)


def translated(action: str) -> list[str]:
    """Return what does in the browser what `search[...]` or `click[...]` does in the text environment."""
    verb, argument = parse(action)
    return [f"type[{BOX}][{argument}]", f"click[{SEARCH}]"] if verb == "search" else [f"click[{argument}]"]


def _cut(value: object) -> object:
    return f"{value[:LONGEST]}..." if isinstance(value, str) and len(value) > LONGEST else value
