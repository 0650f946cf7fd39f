"""Curves of training runs: reward, success, entropy, and what tells whether an update was healthy.

Runs that differ in nothing but their seed are one *group*: their curve is the mean over seeds, each seed a faint line,
and from three seeds on there is a band, a t interval. The band of a single run is its own uncertainty: the standard
error over tasks of what was sampled, and a Wilson interval on the valid panel.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agentbench.core.records import Row
from agentbench.metrics.catalogue import METRICS, family
from agentbench.metrics.stats import mean_interval, wilson
from agentbench.report.figures import Drawing, Series, Stage, draw_heat, draw_lines
from agentbench.report.runs import Training, read_runs

NORMAL = 1.96
"""Standard errors in half of a 95 % interval."""


BAND_SEEDS = 3
"""Seeds from which on a band is drawn: the t interval of two is too wide to show anything."""


class Group(NamedTuple):
    """Training runs of one recipe."""

    label: str
    runs: list[Training]
    colour: int


class Panel(NamedTuple):
    """One plot of metrics by update."""

    title: str
    names: Sequence[str]
    """The first is drawn for every group; the others only where there is one group, and told apart by their labels."""
    labels: Sequence[str] = ("",)
    caption: str = ""


HEALTH = (
    Panel("Turns per episode", ["episode/turns"]),
    Panel("Sampled tokens per episode", ["episode/tokens"]),
    Panel("Invalid actions", ["episode/invalid"], caption="Share of turns whose action was malformed or illegal."),
    Panel("Divergence from the reference", ["policy/kl_reference"]),
    Panel(
        "How far an update went",
        ["policy/approx_kl"],
        caption="Mean of rho - 1 - log rho, rho the ratio of new to old probabilities.",
    ),
    Panel(
        "Clipped ratios",
        ["policy/clip_fraction", "policy/clip_fraction_low", "policy/clip_fraction_high"],
        ["all", "lower end", "upper end"],
    ),
    Panel(
        "Explained variance of the critic",
        ["value/explained_variance"],
        caption="1 is a perfect critic, 0 one that says the same everywhere.",
    ),
    Panel("Critic and returns", ["value/mean", "value/return"], ["what the critic says", "what it is told"]),
    Panel("Norm of the gradient", ["policy/grad_norm"], caption="Before it is scaled down."),
    Panel("Staleness", ["policy/staleness"], caption="Weight updates between sampling a turn and learning from it."),
    Panel("Sampler and learner disagree by", ["policy/logprob_mismatch"]),
    Panel("Episodes without a signal", ["group/without_signal"], caption="All of their group scored the same."),
    Panel("Largest advantage", ["advantage/max"]),
    Panel(
        "Time of an update",
        ["time/seconds", "time/rollout_seconds", "time/update_seconds"],
        ["whole", "collecting", "learning"],
    ),
)


def group_runs(runs: Sequence[Training]) -> list[Group]:
    """Put runs that differ only in their seed together, in the order in which they were named."""
    by_recipe: dict[str, list[Training]] = defaultdict(list)
    for run in runs:
        by_recipe[run.recipe].append(run)
    groups = []
    for colour, members in enumerate(by_recipe.values()):
        several = len(members) > 1
        label = f"{members[0].algorithm}, {len(members)} seeds" if several else members[0].label
        groups.append(Group(label, members, colour))
    return groups


def outcome_curves(groups: Sequence[Group]) -> list[Drawing]:
    """Draw reward and success by update, as sampled and on the valid panel."""
    stages = _stages(groups)
    reward = [line for group in groups for line in _with_error(group, "episode/reward")]
    drawings = [_by_update("reward", "Reward", reward, "episode/reward", stages, "What the trainer pays, per episode.")]
    success = [line for group in groups for line in _with_error(group, "episode/success")]
    drawings.append(_by_update("success", "Success as sampled", success, "episode/success", stages))
    valid = [line for group in groups for line in _valid(group)]
    if valid:
        caption = "The strict rate; the tasks are those of every validation. Bands: Wilson, or t over seeds."
        drawings.append(_by_update("valid", "Success on the valid panel", valid, "valid/success", stages, caption))
    return drawings


def entropy_curves(groups: Sequence[Group]) -> list[Drawing]:
    """Draw entropy by update, by turn, by place of the token, and by turn and update together."""
    stages = _stages(groups)
    lines = [line for group in groups for line in _lines(group, "policy/entropy")]
    drawings = [_by_update("entropy", "Entropy by update", lines, "policy/entropy", stages)] if lines else []
    for name, title, x, logarithmic in (
        ("entropy/turn", "Entropy by turn", "turn of the episode (1 is the first)", False),
        ("entropy/token", "Entropy by place", "place of the token in its episode (1 is the first)", True),
    ):
        traces = [line for group in groups for line in _traces(group, name, many=len(groups) > 1)]
        if traces:
            caption = "First and last update in which the policy played." if len(groups) == 1 else "The last update."
            file = name.replace("/", "-")
            drawings.append(
                draw_lines(file, traces, title=title, x=x, y="nats per token", caption=caption, logarithmic=logarithmic)
            )
    if len(groups) == 1 and len(groups[0].runs) == 1:
        drawings += _heat(groups[0].runs[0])
    return drawings


def health_curves(groups: Sequence[Group]) -> list[Drawing]:
    """Draw what tells whether training went well, as far as it was logged."""
    stages = _stages(groups)
    drawings = []
    for panel in HEALTH:
        names = list(zip(panel.names, panel.labels, strict=True))[: 1 if len(groups) > 1 else None]
        lines = [
            line._replace(label=label if label and line.label else line.label, colour=line.colour + number)
            for number, (name, label) in enumerate(names)
            for group in groups
            for line in _lines(group, name)
        ]
        if lines:
            file = panel.names[0].replace("/", "-")
            drawings.append(_by_update(file, panel.title, lines, panel.names[0], stages, panel.caption))
    return drawings


def draw_run(run: Path) -> list[Path]:
    """Draw the main curves of a training run into its `report` folder.

    Args:
        run: The run directory.

    Returns:
        The files: reward, success, valid panel and entropy, each as PNG and SVG.
    """
    groups = group_runs([trained for trained in read_runs([run]) if isinstance(trained, Training)])
    folder = run / "report"
    folder.mkdir(exist_ok=True)
    drawings = [*outcome_curves(groups), *entropy_curves(groups)]
    return [file for drawing in drawings for file in drawing.save(folder)]


def _by_update(
    file: str, title: str, lines: Sequence[Series], name: str, stages: Sequence[Stage], caption: str = ""
) -> Drawing:
    unit = METRICS[name].unit
    rate, whole = unit == "rate", name.endswith("success")
    y = "" if unit in ("rate", "1") else unit
    return draw_lines(file, lines, title=title, x="update", y=y, caption=caption, stages=stages, rate=rate, whole=whole)


def _lines(group: Group, name: str) -> Iterator[Series]:
    """Yield a metric of a group: one run's own line, or the mean over seeds with its band and a faint line of each."""
    if len(group.runs) == 1:
        x, y = _points(group.runs[0], name)
        if x:
            yield Series(group.label, x, y, colour=group.colour)
        return
    yield from _over_seeds(group, [_points(run, name) for run in group.runs])


def _with_error(group: Group, name: str) -> Iterator[Series]:
    if len(group.runs) > 1:
        yield from _lines(group, name)
        return
    rows = [row for row in group.runs[0].played if name in row]
    errors = [NORMAL * row.get(f"{name}_error", 0.0) for row in rows]
    x, y = [row["update"] for row in rows], [row[name] for row in rows]
    low, high = _shifted(y, errors, -1), _shifted(y, errors, 1)
    if METRICS[name].unit == "rate":
        low, high = [max(0.0, value) for value in low], [min(1.0, value) for value in high]
    if not any(errors):  # A single task has no error.
        yield from _lines(group, name)
    elif x:
        yield Series(group.label, x, y, low, high, group.colour)


def _valid(group: Group) -> Iterator[Series]:
    """Yield success on the valid panel; warm-up stages included, for there the policy itself is measured."""
    name = "valid/success"
    if len(group.runs) > 1:
        yield from _over_seeds(group, [_points_of(run.validated, name) for run in group.runs])
        return
    rows = group.runs[0].validated
    if rows:
        bands = [wilson(round(row[name] * n), n) if (n := int(row.get("valid/episodes", 0))) else None for row in rows]
        known = [band for band in bands if band is not None]
        x, y = _points_of(rows, name)
        low, high = (
            ([band.low for band in known], [band.high for band in known]) if len(known) == len(rows) else (None, None)
        )
        yield Series(group.label, x, y, low, high, group.colour, points=True)


def _over_seeds(group: Group, curves: Sequence[tuple[list[float], list[float]]]) -> Iterator[Series]:
    by_update: dict[float, list[float]] = defaultdict(list)
    for x, y in curves:
        for update, value in zip(x, y, strict=True):
            by_update[update].append(value)
        if x:
            yield Series("", x, y, colour=group.colour, faint=True)
    shared = sorted(update for update, values in by_update.items() if len(values) > 1)
    if shared:
        bands = [mean_interval(by_update[update]) for update in shared]
        mean, low, high = [band.mean for band in bands], [band.low for band in bands], [band.high for band in bands]
        if min(len(by_update[update]) for update in shared) < BAND_SEEDS:
            yield Series(group.label, shared, mean, colour=group.colour)
        else:
            yield Series(group.label, shared, mean, low, high, group.colour)


def _traces(group: Group, name: str, *, many: bool) -> Iterator[Series]:
    """Yield an indexed metric at the first and at the last update, or, beside other groups, at the last alone."""
    ends: Sequence[Callable[[list[Row]], Row]] = (
        [lambda rows: rows[-1]] if many else [lambda rows: rows[0], lambda rows: rows[-1]]
    )
    for number, end in enumerate(ends):
        found = [family(end(rows), name) for run in group.runs if (rows := [r for r in run.played if f"{name}_0" in r])]
        if not found:
            continue
        indices = sorted(set.intersection(*(set(trace) for trace in found)))
        means = [math.fsum(trace[index] for trace in found) / len(found) for index in indices]
        label = group.label if many else ("first update", "last update")[number]
        colour = group.colour if many else number
        yield Series(label, [index + 1 for index in indices], means, colour=colour, points=True)


def _heat(run: Training) -> list[Drawing]:
    """Draw entropy by turn and update; an update without episodes of this length leaves its place empty."""
    rows = [row for row in run.played if "entropy/turn_0" in row]
    traces = [family(row, "entropy/turn") for row in rows]
    turns = max((len(trace) for trace in traces), default=0)
    if len(rows) < 3 or turns < 2:
        return []
    values = [[trace.get(turn, math.nan) for trace in traces] for turn in range(turns)]
    extent = (rows[0]["update"] - 0.5, rows[-1]["update"] + 0.5, 0.5, turns + 0.5)
    title = "Entropy by turn and update"
    return [draw_heat("entropy-heat", values, title=title, x="update", y="turn", unit="nats per token", extent=extent)]


def _points(run: Training, name: str) -> tuple[list[float], list[float]]:
    return _points_of(run.played if name.startswith("episode/") else run.rows, name)


def _points_of(rows: Sequence[Row], name: str) -> tuple[list[float], list[float]]:
    chosen = [row for row in rows if name in row and math.isfinite(row[name])]
    return [row["update"] for row in chosen], [row[name] for row in chosen]


def _shifted(values: Sequence[float], errors: Sequence[float], sign: int) -> list[float]:
    return [value + sign * error for value, error in zip(values, errors, strict=True)]


def _stages(groups: Sequence[Group]) -> list[Stage]:
    """Return the stages of the first run, where all runs went through the same at the same updates."""
    found = [[(row["update"], row["stage"]) for row in run.rows] for group in groups for run in group.runs]
    if not found or any(updates != found[0] for updates in found):
        return []
    spans: dict[str, list[float]] = defaultdict(list)
    for update, stage in found[0]:
        spans[stage].append(update)
    return [Stage(name, updates[0] - 0.5, updates[-1] + 0.5) for name, updates in spans.items()]
