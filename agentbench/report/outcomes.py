"""Figures of evaluations: how success grows with turns, how episodes end, where time goes, and what entropy does.

The task is the unit everywhere: a band is an interval over tasks, whatever the number of trials.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from agentbench.metrics.stats import Estimate, mean_interval, success_interval
from agentbench.report.figures import Drawing, Series, draw_bars, draw_lines
from agentbench.report.runs import Episode, Evaluation

Values = dict[int, dict[str, list[float]]]
"""By index (a turn, a place), by task: one value per episode."""


class Traces(NamedTuple):
    """What happens within the episodes of a run, read from its trajectories."""

    run: Evaluation
    episodes: int
    """How many were read."""
    entropy_by_turn: Values
    entropy_by_place: Values
    """By the first of the places that are taken together: 0, 1, 2, 4, 8, ..."""
    invalid_by_turn: Values


def read_traces(run: Evaluation, episodes: Iterable[Episode]) -> Traces:
    """Collect entropies and invalid actions of episodes by turn and by place."""
    traces = Traces(run, 0, _values(), _values(), _values())
    count = 0
    for episode in episodes:
        count += 1
        task, place = episode.trajectory.task, 0
        by_place: dict[int, list[float]] = defaultdict(list)
        for k, turn in enumerate(episode.trajectory.turns):
            traces.invalid_by_turn[k][task].append(float(not turn.valid))
            if turn.reply.entropies:
                traces.entropy_by_turn[k][task].append(_mean(turn.reply.entropies))
            for entropy in turn.reply.entropies:
                by_place[(1 << place.bit_length()) >> 1].append(entropy)
                place += 1
        for first, entropies in by_place.items():
            traces.entropy_by_place[first][task].append(_mean(entropies))
    return traces._replace(episodes=count)


def outcome_figures(runs: Sequence[Evaluation]) -> list[Drawing]:
    """Draw success by turn, lengths, ends and time of evaluations."""
    drawings = []
    known = [run for run in runs if run.evidence.knows_success]
    if known:
        lines = [_success_by_turn(run, colour) for colour, run in enumerate(runs) if run in known]
        title = "Solved within so many turns"
        caption = "Share of all planned episodes, with its interval over tasks."
        drawings.append(draw_lines("success-turns", lines, title=title, x="turns", y="", caption=caption, rate=True))
    lengths = [_lengths(run, colour) for colour, run in enumerate(runs)]
    drawings.append(
        draw_lines("lengths", lengths, title="Length of episodes", x="turns", y="episodes", caption="Scored episodes.")
    )
    drawings += [_ends(runs), _times(runs)]
    return drawings


def entropy_figures(traces: Sequence[Traces]) -> list[Drawing]:
    """Draw what entropy and validity do within episodes, for the runs that recorded it."""
    wanted = (
        (
            "turns-entropy",
            "Entropy by turn",
            [t.entropy_by_turn for t in traces],
            "turn of the episode",
            "nats per token",
        ),
        (
            "places-entropy",
            "Entropy by place",
            [t.entropy_by_place for t in traces],
            "place of the token",
            "nats per token",
        ),
        ("turns-invalid", "Invalid actions by turn", [t.invalid_by_turn for t in traces], "turn of the episode", ""),
    )
    caption = "Mean over the tasks that came so far, with its 95 % interval; 1 is the first."
    drawings = []
    for name, title, values, x, y in wanted:
        lines = [
            _over_tasks(t.run.label, by, colour, rate=not y)
            for colour, (t, by) in enumerate(zip(traces, values, strict=True))
            if by
        ]
        if lines:
            draw = partial(draw_lines, rate=not y, whole=False, logarithmic="place" in name)
            drawings.append(draw(name, lines, title=title, x=x, y=y, caption=caption))
    return drawings


def _over_tasks(label: str, values: Values, colour: int, *, rate: bool) -> Series:
    """Return the mean over tasks at each index, with its interval."""
    indices = sorted(values)
    bands = [_band(list(values[index].values()), rate=rate) for index in indices]
    # No entropy is below 0; a single task has no interval.
    low = [max(band.low, 0.0) if math.isfinite(band.low) else band.mean for band in bands]
    high = [band.high if math.isfinite(band.high) else band.mean for band in bands]
    x = [index + 1 for index in indices]
    return Series(label, x, [band.mean for band in bands], low, high, colour, points=True)


def _band(values: Sequence[Sequence[float]], *, rate: bool) -> Estimate:
    """Return the interval of a mean over tasks, from the values of each task."""
    means = [_mean(of_task) for of_task in values]
    return success_interval(means, trials=max(map(len, values))) if rate else mean_interval(means)


def _success_by_turn(run: Evaluation, colour: int) -> Series:
    """Return the strict success rate that a cap of so many turns would have left."""
    evidence = run.evidence
    turns = range(1, max((row["turns"] for row in evidence.rows.values()), default=1) + 1)
    bands = []
    for cap in turns:
        by_task: dict[str, list[float]] = defaultdict(list)
        for planned in evidence.plan:
            row = evidence.rows.get(planned.key)
            by_task[planned.task].append(float(bool(row and row["success"] and row["turns"] <= cap)))
        means = [_mean(values) for values in by_task.values()]
        bands.append(success_interval(means, trials=evidence.trials))
    low, high = [band.low for band in bands], [band.high for band in bands]
    return Series(run.label, list(turns), [band.mean for band in bands], low, high, colour, points=True)


def _lengths(run: Evaluation, colour: int) -> Series:
    counts = Counter(row["turns"] for row in run.evidence.rows.values())
    turns = list(range(min(counts), max(counts) + 1))
    return Series(run.label, turns, [counts[length] for length in turns], colour=colour, points=True)


def _ends(runs: Sequence[Evaluation]) -> Drawing:
    counted = [_ways(run) for run in runs]
    kinds = list(dict.fromkeys(kind for counts in counted for kind in sorted(counts)))
    parts = [
        Series(
            kind,
            [],
            [100 * counts[kind] / len(run.planned) for run, counts in zip(runs, counted, strict=True)],
            colour=i,
        )
        for i, kind in enumerate(kinds)
    ]
    return draw_bars("ends", [run.label for run in runs], parts, title="How episodes ended", x="% of planned episodes")


def _ways(run: Evaluation) -> Counter[str]:
    ways = Counter(
        f"{row['end']}, {'no verdict' if row['success'] is None else 'solved' if row['success'] else 'failed'}"
        for row in run.evidence.rows.values()
    )
    missing = len(run.planned) - len(run.evidence.rows)
    return ways + Counter({"not scored": missing})


def _times(runs: Sequence[Evaluation]) -> Drawing:
    costs = [run.evidence.costs for run in runs]
    parts = [
        Series("waiting for replies", [], [cost.policy_seconds / cost.episodes for cost in costs]),
        Series("in the environment", [], [cost.env_seconds / cost.episodes for cost in costs], colour=1),
    ]
    caption = "Episodes run side by side, so that these add up to more than the run took."
    return draw_bars("times", [run.label for run in runs], parts, title="Time of an episode", x="s", caption=caption)


def _values() -> Values:
    return defaultdict(lambda: defaultdict(list))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
