"""What a report says, once: chapters of text, tables and figures, shown as a page, as Markdown or on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentbench.core.errors import RecordError
from agentbench.core.records import write_text
from agentbench.report.figures import Drawing
from agentbench.report.tables import Table, inline, markdown

if TYPE_CHECKING:
    from markupsafe import Markup


class Excerpt(NamedTuple):
    """Text of an environment or a model, shown as it is under a title."""

    title: str
    text: str


class Fact(NamedTuple):
    """One of the numbers that a reader should see first."""

    what: str
    value: str
    remark: str


class Widget(NamedTuple):
    """HTML of our own making, which only a page can show."""

    html: "Markup"


Block = str | Table | Drawing | Excerpt | Widget | Sequence[Fact]


class Chapter(NamedTuple):
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Block]
    short: str = ""
    """What the navigation of a page says, where the title is long."""


def write_page(path: Path, title: str, lead: str, chapters: Iterable[Chapter], *, scripts: Sequence[str] = ()) -> None:
    """Write chapters as one self-contained HTML file.

    Args:
        path: The file.
        title: Of the page.
        lead: One sentence under it.
        chapters: What it says.
        scripts: What its widgets need, see `page.document`.

    Raises:
        PrerequisiteError: The extra `report` is not installed.
        RecordError: The file cannot be written.
    """
    from agentbench.report.page import Section, document

    sections = [Section(chapter.title, list(_parts(chapter.blocks)), chapter.short) for chapter in chapters]
    write_text(path, document(title, sections, lead=lead, scripts=scripts))


def _parts(blocks: Sequence[Block]) -> "Iterator[Markup]":
    """Yield the parts of a page; figures that follow each other stand side by side."""
    from agentbench.report.page import code, figure, grid, paragraph, show_table, tiles

    for drawn, group in groupby(blocks, key=lambda block: isinstance(block, Drawing)):
        if drawn:
            yield grid(figure(b.inline(), b.caption, alt=b.alt) for b in group if isinstance(b, Drawing))
            continue
        for block in group:
            if isinstance(block, Table):
                yield show_table(block)
            elif isinstance(block, Excerpt):
                yield code(block.text, title=block.title)
            elif isinstance(block, str):
                yield paragraph(block)
            elif isinstance(block, Widget):
                yield block.html
            elif not isinstance(block, Drawing):
                yield tiles(block)


def write_markdown(path: Path, title: str, lead: str, chapters: Iterable[Chapter]) -> list[Path]:
    """Write chapters as Markdown, with their figures in a folder beside it.

    Returns:
        The files of the figures.

    Raises:
        RecordError: A file cannot be written.
    """
    lines = [f"# {inline(title)}", "", inline(lead), ""]
    figures, files = path.with_name(f"{path.stem}-figures"), []
    for chapter in chapters:
        lines += [f"## {inline(chapter.title)}", ""]
        for block in chapter.blocks:
            if isinstance(block, Table):
                lines += [inline(block.title), "", markdown(block)]
            elif isinstance(block, Excerpt):
                lines += [inline(block.title), "", *(f"    {line}" for line in block.text.splitlines()), ""]
            elif isinstance(block, Drawing):
                files += _save(block, figures)
                lines += [f"![{inline(block.alt)}]({figures.name}/{block.name}.svg)", "", inline(block.caption), ""]
            elif isinstance(block, str):
                lines += [inline(block), ""]
    write_text(path, "\n".join(lines) + "\n")
    return files


def _save(drawing: Drawing, folder: Path) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return drawing.save(folder)
    except OSError as error:
        raise RecordError(f"cannot write {folder}: {error.strerror}") from error
