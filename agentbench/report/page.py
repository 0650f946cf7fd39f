"""Pages: one self-contained HTML file each, that opens from disk and asks nothing of any network.

    table = Table("Runs", ("run", "success"), [("a", percent(0.8)), ("b", percent(0.5))])
    html = document("Two runs", [Section("Summary", [paragraph("Both on one panel."), show_table(table)])])

A page is a list of sections, a section a list of parts; the functions below make parts. Whatever text goes in is shown
as text: markup in it is escaped, control characters go. Style, colours (light, dark, and a button), sorting of tables
and a content-security policy that allows nothing but the page's own scripts come with `document`. Figures are SVG from
`report.figures`, whose colours follow the page's.
"""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentbench.core.errors import PrerequisiteError
from agentbench.core.plain import plain
from agentbench.report.tables import Cell, Table, as_cell, is_numeric, shortened

if TYPE_CHECKING:
    from markupsafe import Markup

ASSETS = Path(__file__).parent / "assets"


class Section(NamedTuple):
    """One part of a page with a heading, listed in its navigation."""

    title: str
    parts: "Sequence[Markup]"
    short: str = ""
    """What the navigation says, where the title is long."""

    @property
    def anchor(self) -> str:
        """What links to the section end with."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def document(title: str, sections: Sequence[Section], *, lead: str = "", scripts: Sequence[str] = ()) -> str:
    """Return a whole page.

    Args:
        title: Heading and window title.
        sections: What it shows, in order.
        lead: One sentence under the heading.
        scripts: Files of the assets folder to run besides `page.js`.

    Raises:
        PrerequisiteError: The extra `report` is not installed.
    """
    sources = [(ASSETS / name).read_text(encoding="utf-8") for name in ("page.js", *scripts)]
    template = _environment().get_template("page.html")
    html: str = template.render(
        title=plain(title),
        lead=plain(lead),
        sections=[section._replace(title=plain(section.title), short=plain(section.short)) for section in sections],
        style=_safe((ASSETS / "page.css").read_text(encoding="utf-8") + _colours()),
        scripts=[_safe(source) for source in sources],
        policy=_policy(sources),
    )
    return html


def paragraph(text: str) -> "Markup":
    """Return a paragraph."""
    return _safe("<p>{}</p>").format(plain(text))


def note(text: str) -> "Markup":
    """Return a remark: what was left out, what is doubtful."""
    return _safe('<p class="note">{}</p>').format(plain(text))


def code(text: str, *, title: str = "") -> "Markup":
    """Return text in a fixed-width box, folded away under a title if there is one."""
    box = _safe('<pre tabindex="0">{}</pre>').format(plain(text))
    return _safe("<details><summary>{}</summary>{}</details>").format(plain(title), box) if title else box


def tiles(facts: "Iterable[tuple[str, str, str]]") -> "Markup":
    """Return large numbers side by side: (what, its value, a remark) each."""
    tile = _safe('<div class="tile"><dt>{}</dt><dd>{}</dd><dd class="remark">{}</dd></div>')
    return _safe('<dl class="tiles">{}</dl>').format(_joined(tile.format(*map(plain, fact)) for fact in facts))


def figure(svg: str, caption: str, *, alt: str) -> "Markup":
    """Return a figure.

    Args:
        svg: An `<svg>` element of our own making (see `report.figures`); it is not escaped.
        caption: What a reader should know of it, under it; may be empty.
        alt: What it shows, for who does not see it, with the main numbers.
    """
    below = _safe("<figcaption>{}</figcaption>").format(plain(caption)) if caption else ""
    frame = _safe('<figure><div role="img" aria-label="{}">{}</div>{}</figure>')
    return frame.format(plain(alt), _safe(svg), below)


def grid(parts: "Iterable[Markup]") -> "Markup":
    """Return parts side by side where the window is wide enough."""
    return _safe('<div class="grid">{}</div>').format(_joined(parts))


def show_table(table: Table) -> "Markup":
    """Return a table that can be sorted by every column, with mouse and keyboard."""
    columns = range(len(table.columns))
    rows = [[as_cell(value) for value in row] for row in table.rows]
    numeric = [is_numeric([row[column] for row in rows]) for column in columns]
    head = _joined(
        _safe('<th scope="col"{}><button type="button">{}</button></th>').format(_class(numeric[i]), plain(name))
        for i, name in enumerate(table.columns)
    )
    body = _joined(
        _safe("<tr>{}</tr>\n").format(_joined(_cell(row[i], numeric=numeric[i]) for i in columns)) for row in rows
    )
    frame = _safe('<div class="scroll" tabindex="0" role="region" aria-label="{}"><table class="sortable">')
    inner = _safe("<caption>{}</caption><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table></div>")
    return frame.format(plain(table.title)) + inner.format(plain(table.title), head, body)


def embedded(name: str, data: Any) -> "Markup":
    """Return data for the page's scripts."""
    return _safe('<script type="application/json" id="{}">{}</script>').format(name, _safe(embeddable(data)))


def embeddable(data: Any) -> str:
    """Return data as `embedded` writes it, in ASCII; nothing in it can end the element that holds it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, default=str)
    return text.replace("<", "\\u003c")


def asset(name: str) -> "Markup":
    """Return a piece of HTML from the assets folder."""
    return _safe((ASSETS / name).read_text(encoding="utf-8"))


def _cell(cell: Cell, *, numeric: bool) -> "Markup":
    key = _safe(' data-key="{}"').format("" if cell.key is None else cell.key) if numeric else _safe("")
    text = shortened(plain(cell.text))
    return _safe("<td{}{}>{}</td>").format(_class(numeric, long=len(text) > LONG), key, text)


LONG = 32
"""Characters from which on a cell may be broken anywhere."""


def _class(numeric: bool, *, long: bool = False) -> "Markup":
    return _safe(' class="number"' if numeric else ' class="long"' if long else "")


def _policy(scripts: Sequence[str]) -> str:
    """Return a content-security policy that allows these scripts, the page's own style, and nothing from outside."""
    hashes = [b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    own = f"script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _colours() -> str:
    """Return the palette as CSS variables, each with its light and its dark value."""
    from agentbench.report.figures import PALETTE

    lines = [f"--{name}: light-dark({light}, {dark});" for name, (light, dark) in PALETTE.items()]
    return ":root { " + " ".join(lines) + " }\n"


def _joined(parts: "Iterable[Markup]") -> "Markup":
    return _safe("").join(parts)


def _safe(html: str) -> "Markup":
    """Mark HTML of our own as such; what is formatted into it is escaped."""
    markupsafe = _require("markupsafe")
    marked: Markup = markupsafe.Markup(html)
    return marked


def _environment() -> Any:
    jinja2 = _require("jinja2")
    return jinja2.Environment(loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True)


def _require(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise PrerequisiteError(f"pages need {error.name}: install AgentBench with the extra [report]") from error
