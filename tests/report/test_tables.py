"""Tables hold whatever text they are given, in Markdown and in HTML, and sort by what a reader means."""

import math
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.plain import plain
from agentbench.report.page import Section, document, embedded, note, paragraph, show_table
from agentbench.report.tables import ROOM, Cell, Table, interval, markdown, number, percent, seconds
from tests.report.written import HOSTILE

TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=60))


class Read(HTMLParser):
    """What a browser makes of a page: its tags with their attributes, and the text of each cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.cells: list[str] = []
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        self._inside = tag == "td"
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += data


def page(text: str, other: str = "calm") -> str:
    table = Table(text, ("one", text, "three"), [(other, "b", text), (text, other, "c")])
    return document(text, [Section(text, [paragraph(text), note(text), show_table(table)]), Section("Last", [])])


@given(TEXT)
def test_text_changes_nothing_but_itself_in_a_page(text: str) -> None:
    calm, read = Read(page("calm")), Read(page(text))
    assert read.tags == calm.tags
    assert read.names == calm.names
    assert (read.cells[:2], read.cells[4:]) == (["calm", "b"], ["calm", "c"])


@given(TEXT, st.lists(TEXT, min_size=2, max_size=2))
def test_text_can_end_neither_a_cell_nor_a_line_of_markdown(name: str, row: list[str]) -> None:
    lines = markdown(Table("t", (name, "b"), [row, ("x", "y")])).split("\n")
    assert len(lines) == 5
    assert lines[3] == "| x | y |"
    assert all(len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))) == 3 for line in lines[:4])
    assert "<" not in "".join(lines), "no HTML gets into Markdown"


@given(TEXT)
def test_nothing_ends_the_element_that_holds_the_data(text: str) -> None:
    html = str(embedded("data", {"a": text, text: [text]}))
    assert html.count("<") == 2
    assert html.count(">") >= 2


def test_a_megabyte_in_a_cell_is_cut_and_says_so() -> None:
    table = Table("t", ("a",), [("x" * 1_000_000,)])
    for said in (markdown(table), str(show_table(table))):
        assert len(said) < 3 * ROOM
        assert "more characters" in said


def test_cells_say_what_they_mean() -> None:
    assert percent(0.123) == Cell("12.3 %", 0.123)
    assert percent(None) == number(math.nan) == Cell("–")
    assert number(-1.5).text == "−1.50"
    assert interval(0.5, 0.25, 0.75, rate=True) == Cell("50.0 % [25.0, 75.0]", 0.5)
    assert interval(1.0, -math.inf, math.inf) == Cell("1.00", 1.0), "a single task has no interval"
    assert [seconds(value).text for value in (0.0123, 1.5, 90, 7200)] == ["12.3 ms", "1.5 s", "1.5 min", "2.0 h"]


def test_numbers_are_marked_as_such_also_beside_dashes() -> None:
    html = str(show_table(Table("t", ("rate", "name"), [(percent(0.5), "a"), (percent(None), "b")])))
    assert 'data-key="0.5"' in html and 'data-key=""' in html
    assert html.count('class="number"') == 3, "the heading and two cells of the first column"


def test_a_page_allows_nothing_from_outside() -> None:
    html = document("t", [])
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', unescape(html))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in re.sub(r"style-src[^;]*", "", policy)
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", html)


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_go(text: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(text), encoding="utf-8")
    shown = file.read_text(encoding="utf-8")
    assert plain(shown) == shown
