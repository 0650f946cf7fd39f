"""What a shopper of bad will says, and a watch on the files that it might reach."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from agentbench.core.checks import HOSTILE
from agentbench.core.seeding import generator

TEXTS = (
    *HOSTILE,
    # HTML
    "<script>document.title='x'</script>", "\"><img src=x onerror=alert(1)>", "</form><form action=//evil.example>",
    "<iframe src=file:///etc/passwd>", "<base href=//evil.example/>", "</style></head><body>", "&lt;b&gt;&#0;&#x1b;",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>", "' autofocus onfocus='alert(1)", "javascript:alert(1)",
    # SQL
    "' OR '1'='1", "1; DROP TABLE products; --", "' UNION SELECT body FROM products --", "%' ESCAPE '\\", "NULL",
    # Paths
    "../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "....//....//etc/passwd%00.html", "~/.ssh/id_rsa",
    "file:///etc/passwd", "/proc/self/environ", "//evil.example/", "http://127.0.0.1:1/", "/1/../../0", "..\\..\\x",
    # Templates and formats
    "{{7*7}}", "${7*7}", "<%= 7*7 %>", "#{7*7}", "{% include '/etc/passwd' %}", "{0.__class__.__mro__}", "%s%s%n%x",
    # Terminals and headers
    "\x1b[2J\x1b[H", "\x1b]0;mine\x07", "\x1b]8;;file:///etc/passwd\x07", "\x9b31m", "\r\nSet-Cookie: a=b\r\n\r\n",
    # Unicode
    "\u202eemal", "\udfff\ud800", "Z\u0301\u0316a" * 30, "\ufdfa" * 50, "\u0130\u0131\u00df\ufb03", "\ufffe\U000e0041",
    # Numbers
    "9" * 5000, "-1", "1e309", "0x7fffffffffffffff", "1" + "0" * 30, "\uff12", "\u0661", "+1", "1_0", "0" * 30 + "1",
    # The syntax of actions and forms
    "]", "[", "[[", "]]", "][", "a][b", "search[click[x]]", "&click=buy+now", "=&=;;", "%", "%zz", "+", "\n", "\r",
    # Words
    "_", "_'", "1.", "a'", "\u0301", "\u200d", "\U0001f1e6", "\u30a2",
)  # fmt: skip

MEGABYTE = 1_000_000


def attacks(count: int, shapes: Sequence[str], *, more: Sequence[str] = (), seed: int = 0) -> Iterator[str]:
    """Yield hostile actions: a text, or two, or one over and over (up to a megabyte, one in 500), in a random shape.

    Args:
        count: How many.
        shapes: Actions with a `{}` in it.
        more: Further texts.
        seed: Decides the draw.
    """
    rng = generator("attacks", seed)
    known = [*TEXTS, *more]

    def text() -> str:
        return known[int(rng.integers(len(known)))]

    for number in range(count):
        kind = int(rng.integers(6))
        said = text() if kind < 3 else text() + text() if kind == 3 else f"lamp {text()}" if kind == 4 else text() * 40
        if number % 500 == 499:
            said = (said or "x") * (MEGABYTE // len(said or "x"))
        yield shapes[int(rng.integers(len(shapes)))].replace("{}", said)


EVENTS = (
    "open",
    "os.listdir",
    "os.scandir",
    "os.remove",
    "sqlite3.connect",
    "subprocess.Popen",
    "os.system",
    "os.exec",
)
OURS = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[3]))
"""Where Python, its packages and this project are: modules may be loaded late."""

_watches: list[list[str]] = []


@cache
def _listen() -> None:
    """Be told of every event from now on; there is no way to end that."""

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event in EVENTS and not str(arguments[0]).startswith(OURS):
            for seen in _watches:
                seen.append(f"{event} {arguments[0]!s}")

    sys.addaudithook(note)


@contextmanager
def no_file_is_reached() -> Iterator[None]:
    """Hold that nothing in this process opens, lists or runs a file meanwhile."""
    _listen()
    seen: list[str] = []
    _watches.append(seen)
    try:
        yield
    finally:
        _watches.remove(seen)
    assert seen == []
