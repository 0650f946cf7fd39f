"""What different papers call WebShop: one shop, several rules around it.

A protocol decides how a page is shown, which actions are offered in words, when a search counts as legal, and what a
purchase pays. Turns and instructions are the variant's (`ENTRY`); sources are on the card.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agentbench.core.errors import UsageError
from agentbench_envs.webshop.compact import compact
from agentbench_envs.webshop.pages import SEPARATOR
from agentbench_envs.webshop.session import Session

RAGEN_ADVICE: Final = """\
Buy something within ten actions; it need not fit in every detail, close is good enough.
Leave sizes and colors out of the search, and search twice at most.
Rather look at a product on this page than go to the next; go on twice at most, and back only for a reason.
With fewer than three actions left, buy the first product in sight.
Choose the size and the color that are asked for, one at a time, before you buy, unless only one action is left. Never
open the description.\
"""
"""What RAGEN repeats with every page, in our words."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The rules of one publication."""

    show: Callable[[Session], str]
    """Writes the page that the session is on."""
    graded: float = 0.0
    """What a purchase pays per unit of its score."""
    win: float = 0.0
    """What a purchase with the full score pays besides."""
    search_anywhere: bool = True
    """Whether a search is legal on pages without a search box; it is played all the same, as in the original."""
    numbered: bool = False
    """Whether products are clicked by their number on the page."""


def plain(session: Session) -> str:
    """Show the page as it is."""
    return session.observation


def ragen(session: Session) -> str:
    """Show the page, RAGEN's advice, and the actions; at the end of the results no next page is offered."""
    offered = ["search[<content>]"] * session.available["has_search_bar"]
    offered += [f"click[{name}]" for name in session.available["clickables"] if name != "search"]
    if offered == ["click[back to search]", "click[< prev]", "click[next >]"]:
        offered.pop()
    return f"{session.observation}.\n{RAGEN_ADVICE}\nYou must choose from these actions: {', '.join(offered)}."


def verl_agent(session: Session) -> str:
    """Show task, page without the task, and actions as verl-agent's manager writes them."""
    task = session.goal["instruction_text"]
    head, found, rest = session.observation.partition(f"{task}{SEPARATOR}")
    page = SEPARATOR.join(f"'{part}'" for part in rest.split(SEPARATOR)) if found else head
    offered = ["search[<your query>]"] * session.available["has_search_bar"]
    offered += [f"click[{name}]" for name in session.available["clickables"]]
    actions = "\n".join(f"'{action}'," for action in offered)
    return f"Your task is to: {task}.\nYour current observation is: {page}.\nYour admissible actions:\n[\n{actions}\n]."


PROTOCOLS: Final = {
    "original": Protocol(plain, graded=1.0),
    "ragen": Protocol(ragen, win=1.0, search_anywhere=False),
    "verl-agent": Protocol(verl_agent, win=10.0),
    "agentgym": Protocol(plain, graded=1.0),
    "compact": Protocol(compact, graded=1.0, numbered=True),
}


def protocol(name: str) -> Protocol:
    """Return a protocol by name.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in PROTOCOLS:
        raise UsageError(f"found protocol {name!r}, expected one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
