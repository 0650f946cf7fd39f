"""What a comparison says, once: chapters of text, tables and figures, shown as a page, as Markdown or on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentbench.core.records import write_text
from agentbench.report.figures import Drawing
from agentbench.report.tables import Table, markdown

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


Block = str | Table | Drawing | Excerpt | Sequence[Fact]


class Chapter(NamedTuple):
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Block]


def write_page(path: Path, title: str, lead: str, chapters: Iterable[Chapter]) -> None:
    """Write chapters as one self-contained HTML file.

    Raises:
        PrerequisiteError: The extra `report` is not installed.
        RecordError: The file cannot be written.
    """
    from agentbench.report.page import Section, document

    sections = [Section(chapter.title, list(_parts(chapter.blocks))) for chapter in chapters]
    write_text(path, document(title, sections, lead=lead))


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
            elif not isinstance(block, Drawing):
                yield tiles(block)


def write_markdown(path: Path, title: str, lead: str, chapters: Iterable[Chapter]) -> None:
    """Write chapters as Markdown, with their figures in a folder beside it.

    Raises:
        RecordError: The file cannot be written.
    """
    lines = [f"# {title}", "", lead, ""]
    figures = path.with_suffix("")
    for chapter in chapters:
        lines += [f"## {chapter.title}", ""]
        for block in chapter.blocks:
            if isinstance(block, Table):
                lines += [block.title, "", markdown(block)]
            elif isinstance(block, Excerpt):
                lines += [block.title, "", *(f"    {line}" for line in block.text.splitlines()), ""]
            elif isinstance(block, Drawing):
                figures.mkdir(parents=True, exist_ok=True)
                block.save(figures)
                lines += [f"![{block.alt}]({figures.name}/{block.name}.svg)", "", block.caption, ""]
            elif isinstance(block, str):
                lines += [block, ""]
    write_text(path, "\n".join(lines) + "\n")
