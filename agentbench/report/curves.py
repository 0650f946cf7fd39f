"""Reward curves and entropy traces of training runs, as PNG and SVG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentbench.core.records import read_lines
from agentbench.metrics.catalogue import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]

STAGE_COLOURS = ("#7a7a7a", "#c98a1b", "#2563a8")
"""Of the stages, the last one the most saturated: grey warm start, amber critic, blue algorithm."""


def draw_run(run: Path) -> list[Path]:
    """Draw the reward curve and the entropy trace of a training run into its `report` folder.

    Args:
        run: The run directory.

    Returns:
        The files: `reward.png`, `reward.svg`, `entropy.png`, `entropy.svg`.
    """
    rows = list(read_lines(run / "metrics.jsonl"))
    folder = run / "report"
    folder.mkdir(exist_ok=True)
    files = []
    for name, draw in (("reward", _draw_reward), ("entropy", _draw_entropy)):
        files += _save(folder / name, rows, draw)
    return files


def _save(path: Path, rows: Sequence[Row], draw: Any) -> list[Path]:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": ""}):
        figure = draw(rows)
        files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
        for file in files:
            figure.savefig(file, dpi=150, bbox_inches="tight", metadata={"Date": None} if file.suffix == ".svg" else {})
        plt.close(figure)
    return files


def _draw_reward(rows: Sequence[Row]) -> Any:
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 5))
    played = [row for row in rows if row["stage"] != "warm-start"]  # there the oracle plays, and always wins
    _line(above, played, "episode/reward")
    _line(below, played, "episode/success")
    measured = [row for row in rows if "valid/success" in row]
    below.plot(*_points(measured, "valid/success"), "o-", color="#b3261e", markersize=4, label="valid panel, greedy")
    below.set_ylim(-0.02, 1.02)
    below.legend(frameon=False, loc="lower right")
    _mark_stages((above, below), rows)
    below.set_xlabel("update")
    return figure


def _draw_entropy(rows: Sequence[Row]) -> Any:
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 5.5))
    _line(above, rows, "policy/entropy")
    _mark_stages((above,), rows)
    above.set_xlabel("update")
    played = [row for row in rows if "entropy/turn_0" in row and row["stage"] != "warm-start"]
    for row, label, colour in _first_and_last(played):
        turns = sorted(int(name.rpartition("_")[2]) for name in row if name.startswith("entropy/turn_"))
        below.plot(turns, [row[f"entropy/turn_{k}"] for k in turns], "o-", markersize=4, color=colour, label=label)
    below.set_xlabel("turn of the episode")
    below.set_ylabel("entropy per token, nats")
    below.set_ylim(bottom=0)
    if played:
        below.legend(frameon=False)
    figure.tight_layout()
    return figure


def _first_and_last(rows: Sequence[Row]) -> list[tuple[Row, str, str]]:
    if not rows:
        return []
    ends = ((rows[0], STAGE_COLOURS[0]), (rows[-1], STAGE_COLOURS[-1]))
    return [(row, f"update {row['update']}", colour) for row, colour in ends]


def _line(axes: "Axes", rows: Sequence[Row], name: str) -> None:
    axes.plot(*_points(rows, name), color=STAGE_COLOURS[-1], linewidth=1.2, label="as sampled")
    quantity, unit = name.partition("/")[2], METRICS[name].unit
    axes.set_ylabel(quantity if quantity == unit else f"{quantity}, {unit}")


def _points(rows: Sequence[Row], name: str) -> tuple[list[int], list[float]]:
    chosen = [row for row in rows if row.get(name) is not None]
    return [row["update"] for row in chosen], [row[name] for row in chosen]


def _mark_stages(axes: Sequence["Axes"], rows: Sequence[Row]) -> None:
    """Shade each stage and name it."""
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    colours = STAGE_COLOURS[-len(stages) :] if stages else ()
    for number, (stage, colour) in enumerate(zip(stages, colours, strict=False)):
        updates = [row["update"] for row in rows if row["stage"] == stage]
        for ax in axes:
            ax.axvspan(updates[0] - 0.5, updates[-1] + 0.5, color=colour, alpha=0.08, linewidth=0)
        axes[0].annotate(
            stage,
            (updates[0], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2 + 10 * (number % 2)),  # neighbours stand at different heights, for a stage may be short
            textcoords="offset points",
            fontsize=8,
            color=colour,
        )
