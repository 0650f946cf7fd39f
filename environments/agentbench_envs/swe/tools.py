"""What an agent can do in a repository, and the two ways of saying it.

A block of shell commands:                      A call by name:

    ```bash                                         <function=edit>
    grep -rn total src                              <parameter=path>src/sum.py</parameter>
    ```                                             <parameter=old>a - b</parameter>
                                                    <parameter=new>a + b</parameter>
                                                    </function>

A reply holds exactly one of them; whatever else it says is for its author. The second is the notation of R2E-Gym and
OpenHands, the first that of mini-swe-agent.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

TOOLS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]]] = {
    "bash": (("command",), (), "run a shell command; folder and variables stay for the next one"),
    "view": (("path",), ("start", "end"), "show a file with line numbers, or the entries of a folder"),
    "search": (("pattern",), ("path",), "find a regular expression in the files of the repository"),
    "edit": (("path", "old", "new"), (), "replace a text that occurs exactly once in a file"),
    "create": (("path", "text"), (), "write a new file"),
    "tests": ((), ("paths",), "run the tests of the repository, all or those of some paths"),
    "undo": ((), (), "take back the last edit or create"),
    "submit": ((), (), "hand in the repository as it is; this ends the task"),
}
"""By name: the parameters that are needed, those that may be given, and what it does."""


class Frame(NamedTuple):
    """What stands before and after a piece of a reply."""

    opening: re.Pattern[str]
    """Its one group is the name of the piece."""
    closing: re.Pattern[str]


_CALL: Final = Frame(re.compile(r"<function=([^<>\s]*)>"), re.compile(r"</function>"))
_PARAMETER: Final = Frame(
    re.compile(r"<parameter=([^<>\s]*)>"), re.compile(r"</parameter>(?=\s*(?:<parameter=[^<>\s]*>|\Z))")
)
_BLOCK: Final = Frame(
    re.compile(r"^```(bash|sh|shell)[ \t]*\n", re.MULTILINE), re.compile(r"^```[ \t]*$", re.MULTILINE)
)


class Call(NamedTuple):
    """One use of a tool."""

    tool: str
    arguments: dict[str, str]


class MalformedError(ValueError):
    """A reply that is no single call; the message says why, in words for the agent."""


def parse(reply: str) -> Call:
    """Read the one call of a reply.

    Raises:
        MalformedError: There is none, there are several, or it cannot be understood.
    """
    reply = reply.encode(errors="replace").decode()
    calls = _pieces(reply, _CALL)
    blocks = [] if calls else _pieces(reply, _BLOCK)
    if len(calls) + len(blocks) != 1:
        found = len(calls) + len(blocks)
        raise MalformedError(
            f"found {found or 'no'} actions, expected exactly one ```bash block or <function=...> call"
        )
    if blocks:
        command = blocks[0][1].strip()
        return Call("submit", {}) if command == "submit" else _checked("bash", {"command": command})
    name, inside = calls[0]
    return _checked(name, _arguments(inside))


def write(tool: str, **arguments: str) -> str:
    """Write a call as a reply."""
    inside = "".join(f"<parameter={name}>{value}</parameter>\n" for name, value in arguments.items())
    return f"<function={tool}>\n{inside}</function>"


def _pieces(text: str, frame: Frame) -> list[tuple[str, str]]:
    """Return name and content of each piece, in linear time: an opening that nothing closes ends the search."""
    found = []
    opening = frame.opening.search(text)
    while opening and (closing := frame.closing.search(text, opening.end())):
        found.append((opening[1], text[opening.end() : closing.start()]))
        opening = frame.opening.search(text, closing.end())
    return found


def _arguments(inside: str) -> dict[str, str]:
    found = _pieces(inside.strip(), _PARAMETER)
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise MalformedError("a parameter was given twice")
    return {name: _trim(value) for name, value in found}


def _trim(value: str) -> str:
    """Drop the line breaks with which many models frame a value."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == "\n" else value


def _checked(name: str, arguments: dict[str, str]) -> Call:
    if name not in TOOLS:
        raise MalformedError(f"there is no tool {name[:40]!r}; expected one of {', '.join(TOOLS)}")
    needed, optional, _ = TOOLS[name]
    missing = [parameter for parameter in needed if parameter not in arguments]
    unknown = [parameter for parameter in arguments if parameter not in (*needed, *optional)]
    if missing or unknown:
        words = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"does not take {unknown[:1]}"] * bool(unknown)
        raise MalformedError(f"{name} {' and '.join(words)}")
    if any("\0" in value for value in arguments.values()):
        raise MalformedError("a parameter holds a NUL character")
    if name == "bash" and not arguments["command"].strip():
        raise MalformedError("the command is empty")
    return Call(name, arguments)
