"""Figures: small line, bar and heat plots, drawn once and used three times: in a page, as SVG, and as PNG.

In a page the colours of a figure are the page's own (light or dark), because every colour of `PALETTE` that matplotlib
wrote is replaced by the variable of its name; the files carry the light ones. Text stays text.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentbench.core.errors import PrerequisiteError
from agentbench.core.plain import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PALETTE: dict[str, tuple[str, str]] = {
    "ink": ("#1b2027", "#e5eaf0"),
    "muted": ("#59636e", "#9aa6b2"),
    "grid": ("#e3e7eb", "#28323c"),
    "series-0": ("#2162a8", "#6cb2ff"),
    "series-1": ("#c2410c", "#ff9b61"),
    "series-2": ("#15803d", "#56d488"),
    "series-3": ("#8a3ab9", "#cf9bff"),
    "series-4": ("#96700a", "#e5be4b"),
    "series-5": ("#0e7490", "#4fd0e6"),
    "heat": ("#f59e0b", "#d97706"),
}
"""Each colour in light and dark. Series have a contrast of at least 4.5 to the paper in both."""

WIDTH, HEIGHT, DPI = 4.6, 2.9, 200
"""Inches, and pixels per inch of the PNG: at half its size, text is still 12 pixels high."""


class Series(NamedTuple):
    """One line of a plot."""

    label: str
    """Empty: not in the legend."""
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """Lower edge of its band, one value per point."""
    high: Sequence[float] | None = None
    colour: int = 0
    points: bool = False
    """Mark the points: few of them, or each a measurement of its own."""
    faint: bool = False
    """One of many lines that another line sums up."""


class Stage(NamedTuple):
    """A stretch of the x axis with a name."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Drawing:
    """A finished figure."""

    name: str
    """Of its files, without the ending."""
    title: str
    """What it shows, one line."""
    caption: str
    alt: str
    svg: str
    png: bytes

    def save(self, folder: Path) -> list[Path]:
        """Write `NAME.png` and `NAME.svg` into a folder and return them."""
        png, svg = folder / f"{self.name}.png", folder / f"{self.name}.svg"
        png.write_bytes(self.png)
        svg.write_text(self.svg, encoding="utf-8")
        return [png, svg]

    def inline(self) -> str:
        """Return the `<svg>` element for a page, in the page's colours, with ids that are its own."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", svg)
        for name, (light, _) in PALETTE.items():
            svg = svg.replace(light, f"var(--{name})")
        return svg


def draw_lines(
    name: str,
    series: Sequence[Series],
    *,
    title: str,
    x: str,
    y: str,
    caption: str = "",
    stages: Sequence[Stage] = (),
    rate: bool = False,
    whole: bool = True,
    logarithmic: bool = False,
) -> Drawing:
    """Draw lines with their bands.

    Args:
        name: Of the files.
        series: The lines; where there is more than one label, there is a legend.
        title: What it shows.
        x: Label of the x axis, with its unit.
        y: Label of the y axis, with its unit.
        caption: What a reader should know of it.
        stages: Stretches of the x axis to shade and name.
        rate: The y axis is a share, in per cent.
        whole: That axis runs from 0 to 100 %; False: from 0 as far as it must.
        logarithmic: The x axis doubles at equal steps.
    """
    with _style() as figure:
        axes = figure.add_subplot()
        for line in series:
            _draw_line(axes, line)
        _label(axes, title, x, y)
        _mark_stages(axes, stages)
        if rate:
            _as_rate(axes, whole=whole)
        if logarithmic:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:.0f}")
        else:
            _whole_numbers(axes.xaxis)
        if all(value == 0 for line in series for value in line.y):
            axes.set_ylim(-0.02, 1)
        if len({line.label for line in series if line.label}) > 1:
            _legend(axes)
        return _finish(name, title, caption, _describe(title, series, y, rate=rate), figure)


def draw_bars(
    name: str, groups: Sequence[str], parts: Sequence[Series], *, title: str, x: str, caption: str = ""
) -> Drawing:
    """Draw one horizontal bar per group, made of parts; a part's `y` holds its length in each group.

    A part that the x axis already names needs no label, and then no legend.
    """
    with _style(height=1.3 + 0.34 * len(groups)) as figure:
        axes = figure.add_subplot()
        left = [0.0] * len(groups)
        places = range(len(groups))
        for part in parts:
            axes.barh(places, part.y, left=left, height=0.62, color=_colour(part), label=plain(part.label))
            left = [start + length for start, length in zip(left, part.y, strict=True)]
        axes.set_yticks(places, [_short(group) for group in groups])
        axes.invert_yaxis()
        _label(axes, title, x, "")
        axes.grid(axis="y", visible=False)
        if any(part.label for part in parts):
            _legend(axes)
        said = "; ".join(
            f"{group}: " + ", ".join(f"{part.label or x} {part.y[i]:.3g}" for part in parts)
            for i, group in enumerate(groups)
        )
        return _finish(name, title, caption, f"{title}. {said}", figure)


def draw_heat(
    name: str, values: Sequence[Sequence[float]], *, title: str, x: str, y: str, unit: str, extent: Sequence[float]
) -> Drawing:
    """Draw a table of values as colours.

    Args:
        name: Of the files.
        values: Row by row, the first at the bottom; nan stays empty.
        title: What it shows.
        x: Label of the x axis.
        y: Label of the y axis.
        unit: Of the values.
        extent: Left, right, bottom and top of the axes.
    """
    with _style() as figure:
        axes = figure.add_subplot()
        left, right, bottom, top = extent
        image = axes.imshow(values, aspect="auto", origin="lower", extent=(left, right, bottom, top), cmap="viridis")
        _label(axes, title, x, y)
        axes.grid(visible=False)
        bar = figure.colorbar(image, ax=axes, pad=0.02)
        bar.set_label(unit)
        bar.outline.set_visible(False)
        _whole_numbers(axes.xaxis)
        _whole_numbers(axes.yaxis)
        finite = [value for row in values for value in row if value == value]
        said = f"{title}: from {min(finite):.3g} to {max(finite):.3g} {unit}" if finite else title
        return _finish(name, title, "", said, figure)


def draw_matrix(
    name: str,
    values: Sequence[Sequence[float]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    x: str,
    y: str,
    caption: str = "",
) -> Drawing:
    """Draw a table of rates with names on both sides, each rate written in its field.

    Args:
        name: Of the files.
        values: Row by row, the first on top, from 0 to 1; nan stays empty.
        rows: Names of the rows.
        columns: Names of the columns.
        title: What it shows.
        x: What the columns are.
        y: What the rows are.
        caption: What else to know.
    """
    with _style(height=1.4 + 0.5 * len(rows)) as figure:
        axes = figure.add_subplot()
        axes.imshow(values, aspect="auto", cmap="Blues", vmin=0.0, vmax=1.0, alpha=0.85)
        _label(axes, title, x, "")
        axes.set_ylabel(y)
        axes.grid(visible=False)
        axes.set_xticks(range(len(columns)), [_short(column) for column in columns], rotation=20, ha="right")
        axes.set_yticks(range(len(rows)), [_short(row) for row in rows])
        said = []
        for i, j in ((i, j) for i in range(len(rows)) for j in range(len(columns)) if values[i][j] == values[i][j]):
            colour = "white" if values[i][j] > 0.65 else "black"
            axes.text(j, i, f"{100 * values[i][j]:.0f} %", ha="center", va="center", color=colour)
            said.append(f"{rows[i]} on {columns[j]} {100 * values[i][j]:.0f} %")
        return _finish(name, title, caption, f"{title}. {'; '.join(said)}", figure)


def _draw_line(axes: "Axes", line: Series) -> None:
    colour = _colour(line)
    marker = {"marker": "o", "markersize": 3.5} if line.points or len(line.x) == 1 else {}
    width, alpha = (0.7, 0.45) if line.faint else (1.6, 1.0)
    axes.plot(line.x, line.y, color=colour, linewidth=width, alpha=alpha, label=plain(line.label) or None, **marker)  # type: ignore[arg-type]
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0)


def _label(axes: "Axes", title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", pad=6)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if y:
        axes.yaxis.set_major_formatter("{x:.4g}")


def _whole_numbers(axis: "Axis") -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=8, integer=True))


def _as_rate(axes: "Axes", *, whole: bool) -> None:
    from matplotlib.ticker import PercentFormatter

    top = 1.0 if whole else max(axes.get_ylim()[1], 0.01)
    axes.set_ylim(-0.02 * top, 1.02 * top)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0 if top >= 0.1 else 1, symbol=" %"))


def _mark_stages(axes: "Axes", stages: Sequence[Stage]) -> None:
    if len(stages) < 2:
        return
    axes.set_title(axes.get_title("left"), loc="left", fontsize=10, fontweight="bold", pad=24)
    axes.set_xlim(stages[0].start, stages[-1].end)
    for number, stage in enumerate(stages):
        if number % 2:
            axes.axvspan(stage.start, stage.end, color=PALETTE["muted"][0], alpha=0.08, linewidth=0)
        axes.annotate(
            stage.name,
            (stage.start, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2 + 9 * (number % 2)),  # neighbours stand at different heights: a stage may be short
            textcoords="offset points",
            fontsize=8,
            color=PALETTE["muted"][0],
        )


def _legend(axes: "Axes") -> None:
    """Put the legend under the axis label, where no line is."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -0.42, axes.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below}
    axes.legend(frameon=False, fontsize=8.5, ncols=2, borderaxespad=0, **place)


def _colour(line: Series) -> str:
    return PALETTE[f"series-{line.colour % 6}"][0]


def _short(text: str, limit: int = 28) -> str:
    text = plain(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _describe(title: str, series: Sequence[Series], y: str, *, rate: bool) -> str:
    def show(value: float) -> str:
        return f"{100 * value:.1f} %" if rate else f"{value:.3g}"

    said = [
        f"{line.label or y}: from {show(line.y[0])} at {line.x[0]:g} to {show(line.y[-1])} at {line.x[-1]:g}"
        for line in series
        if len(line.x) and not line.faint
    ]
    return f"{title}. " + "; ".join(said)


_RC: Any = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.edgecolor": PALETTE["muted"][0],
    "axes.labelcolor": PALETTE["ink"][0],
    "axes.titlecolor": PALETTE["ink"][0],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALETTE["grid"][0],
    "grid.linewidth": 0.7,
    "xtick.color": PALETTE["muted"][0],
    "xtick.labelcolor": PALETTE["ink"][0],
    "ytick.color": PALETTE["muted"][0],
    "ytick.labelcolor": PALETTE["ink"][0],
    "legend.labelcolor": PALETTE["ink"][0],
    "text.color": PALETTE["ink"][0],
    "text.parse_math": False,  # a `$` in a name is a `$`
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "agentbench",
}


class _style:  # noqa: N801 - reads as a statement: `with _style() as figure:`
    """An empty figure in the house style; nothing global is left changed."""

    def __init__(self, height: float = HEIGHT) -> None:
        self.height = height

    def __enter__(self) -> "Figure":
        try:
            import matplotlib as mpl
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise PrerequisiteError(f"figures need {error.name}: install AgentBench with the extra [report]") from error
        self._context: Any = mpl.rc_context(_RC)
        self._context.__enter__()
        return Figure(figsize=(WIDTH, self.height), layout=None)

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


def _finish(name: str, title: str, caption: str, alt: str, figure: "Figure") -> Drawing:
    svg, png = io.StringIO(), io.BytesIO()
    cut: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.05}
    figure.savefig(svg, format="svg", metadata={"Date": None}, **cut)
    figure.savefig(png, format="png", dpi=DPI, facecolor="white", **cut)
    return Drawing(name, title, caption, alt, svg.getvalue(), png.getvalue())
