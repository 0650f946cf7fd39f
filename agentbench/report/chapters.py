"""What a comparison says, once: chapters of text, tables and figures, shown as a page, as Markdown or on a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from agentbench.core.records import write_text
from agentbench.report.figures import Drawing
from agentbench.report.tables import Table, markdown


class Excerpt(NamedTuple):
    """Text of an environment or a model, shown as it is under a title."""

    title: str
    text: str


Block = str | Table | Drawing | Excerpt


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
    from agentbench.report.page import Section, code, document, figure, grid, paragraph, show_table

    sections = []
    for chapter in chapters:
        drawings = [figure(b.inline(), b.caption, alt=b.alt) for b in chapter.blocks if isinstance(b, Drawing)]
        parts = [] if not drawings else [grid(drawings)]
        for block in chapter.blocks:
            if isinstance(block, Table):
                parts.append(show_table(block))
            elif isinstance(block, Excerpt):
                parts.append(code(block.text, title=block.title))
            elif isinstance(block, str):
                parts.append(paragraph(block))
        sections.append(Section(chapter.title, parts))
    write_text(path, document(title, sections, lead=lead))


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
            else:
                lines += [block, ""]
    write_text(path, "\n".join(lines) + "\n")
