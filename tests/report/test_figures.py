"""Figures follow the colours of the page, keep their ids to themselves, and can be read in both schemes."""

import re
from xml.etree import ElementTree

import pytest

from agentbench.report.figures import PALETTE, Drawing, Series, Stage, draw_bars, draw_heat, draw_lines
from tests.report.written import HOSTILE

PAPER = ("#ffffff", "#0f1419")


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", [name for name in PALETTE if name not in ("grid", "heat")])
def test_colours_can_be_told_from_the_paper_in_both_schemes(name: str) -> None:
    assert [contrast(colour, paper) >= 4.5 for colour, paper in zip(PALETTE[name], PAPER, strict=True)] == [True, True]


def lines(label: str = "a", name: str = "one") -> Drawing:
    series = [Series(label, [1, 2, 3], [0.1, 0.5, 0.9], [0.0, 0.4, 0.8], [0.2, 0.6, 1.0]), Series("b", [1], [1.0])]
    stages = [Stage("first", 0.5, 1.5), Stage("second", 1.5, 3.5)]
    return draw_lines(name, series, title="Reward", x="update", y="reward", stages=stages)


def test_an_inline_figure_has_no_colour_of_its_own() -> None:
    svg = lines().inline()
    assert not [light for light, _ in PALETTE.values() if light in svg]
    assert "var(--series-0)" in svg and "var(--ink)" in svg and "var(--grid)" in svg
    assert PALETTE["series-0"][0] in lines().svg, "the file has them"


def test_figures_on_one_page_do_not_share_ids() -> None:
    first, second = (set(re.findall(r'\bid="([^"]+)"', lines(name=name).inline())) for name in ("one", "two"))
    assert first and not first & second
    svg = lines().inline()
    targets = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    assert targets <= set(re.findall(r'\bid="([^"]+)"', svg)), "and their own references lead somewhere"


def test_the_same_figure_is_the_same_bytes() -> None:
    assert lines().svg == lines().svg
    assert lines().png == lines().png


def test_a_figure_says_its_main_numbers_in_words() -> None:
    assert lines().alt == "Reward. a: from 0.1 at 1 to 0.9 at 3; b: from 1 at 1 to 1 at 1"


@pytest.mark.parametrize("label", [label for label in HOSTILE if label])
def test_labels_are_text_and_nothing_else(label: str) -> None:
    bars = draw_bars("b", [label, "x"], [Series(label, [], [1.0, 2.0]), Series("y", [], [1.0, 0.0])], title="T", x="s")
    for drawing in (lines(label), bars):
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawing.svg).iter()}
        assert "script" not in tags and "img" not in tags and "h1" not in tags


def test_bars_of_one_kind_say_which() -> None:
    named = draw_bars("b", ["run"], [Series("terminated, solved", [], [100.0])], title="T", x="%")
    assert "terminated, solved" in named.svg
    assert draw_bars("b", ["run"], [Series("", [], [3.0])], title="T", x="episodes").alt == "T. run: episodes 3"


def test_what_was_not_measured_stays_empty() -> None:
    heat = draw_heat("h", [[1.0, float("nan")], [2.0, 3.0]], title="H", x="x", y="y", unit="nats", extent=(0, 2, 0, 2))
    assert heat.alt == "H: from 1 to 3 nats"
