"""`agentbench report`: one page, its Markdown and its figures, for evaluations, training runs, and both together."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agentbench.core.errors import RecordError, UsageError
from agentbench.core.records import Row
from agentbench.metrics.catalogue import FAMILIES, METRICS, Metric
from agentbench.metrics.collect import REACHED
from agentbench.metrics.stats import wilson
from agentbench.report.chapters import Chapter, Excerpt, Fact, Widget, write_markdown, write_page
from agentbench.report.curves import entropy_curves, group_runs, health_curves, outcome_curves
from agentbench.report.outcomes import Traces, entropy_figures, outcome_figures, read_traces
from agentbench.report.player import show_player
from agentbench.report.runs import Evaluation, Run, Training, choose, evenly, read_episodes, read_runs
from agentbench.report.tables import Cell, Table, as_cell, interval, number, percent, seconds
from agentbench.report.transfer import transfer_chapters

EPISODES = 40
"""Episodes in the player, over all runs."""
TRACED = 300
"""Episodes of a run whose trajectories are read for the entropy traces."""
TASKS = 1000
"""Rows of a table of tasks."""


class Written(NamedTuple):
    """The files of a report."""

    page: Path
    markdown: Path
    figures: list[Path]


def write_report(paths: Sequence[Path], page: Path, *, episodes: int = EPISODES, show: Sequence[str] = ()) -> Written:
    """Write a report of one or several runs.

    Args:
        paths: Run directories of `agentbench eval` and `agentbench train`, in any mixture.
        page: The HTML file; Markdown of the same name and a folder of figures are written beside it.
        episodes: How many episodes the player holds.
        show: Keys or tasks of episodes that it must hold.

    Raises:
        UsageError: There is no run at a path, or none of the episodes that were asked for, or the file is no `.html`.
        RunInvalid: A run is damaged or has nothing to report yet.
        RecordError: The files cannot be written.
    """
    if page.is_dir():
        raise UsageError(f"{page} is a folder: name the HTML file to write")
    if page.suffix not in (".html", ".htm"):
        raise UsageError(f"-o takes a file that ends with .html, got {page}; its Markdown is written beside it")
    runs = read_runs(paths)
    chosen = _chosen(runs, episodes, show)
    chapters = list(_chapters(runs, chosen))
    text = page.with_suffix(".md")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot write {page.parent}: {error.strerror}") from error
    figures = write_markdown(text, _title(runs), _lead(runs), chapters)
    write_page(page, _title(runs), _lead(runs), chapters, scripts=["player.js"])
    return Written(page, text, figures)


def _chosen(runs: Sequence[Run], limit: int, show: Sequence[str]) -> list[tuple[Run, list[Row]]]:
    """Share the player's room among the runs."""
    each = max(1, limit // len(runs)) if limit else 0
    chosen = [(run, choose(run.episodes, each, show)) for run in runs]
    keys = [name for _, rows in chosen for row in rows for name in (row["key"], row["task"])]
    missing = [wanted for wanted in show if not any(key.startswith(wanted) for key in keys)]
    if missing:
        raise UsageError(f"no recorded episode has a key or task that begins with {', '.join(missing)}")
    return chosen


def _chapters(runs: Sequence[Run], chosen: Sequence[tuple[Run, list[Row]]]) -> Iterator[Chapter]:
    evaluations = [run for run in runs if isinstance(run, Evaluation)]
    trained = [run for run in runs if isinstance(run, Training)]
    yield _summary(evaluations, trained)
    if trained:
        groups = group_runs(trained)
        yield Chapter("Training curves", [_bands(trained), *outcome_curves(groups)], "Curves")
        yield Chapter("Entropy while training", entropy_curves(groups), "Entropy")
        yield Chapter("Health of the updates", health_curves(groups), "Health")
    if evaluations:
        traces = [_traced(run) for run in evaluations]
        yield Chapter("Outcomes", outcome_figures(evaluations))
        yield from transfer_chapters(evaluations)
        yield Chapter("Within episodes", [*map(_sampled, traces), *entropy_figures(traces)], "Within")
        yield Chapter("Tasks", [*map(_tasks, evaluations), *_left_out(evaluations)])
    yield _episodes(runs, chosen)
    files = [file for run in runs for file in _configuration(run)]
    yield Chapter("Circumstances", [_LOCK, *map(_circumstances, runs), *files], "Lock")
    yield Chapter("What the numbers mean", [_glossary(evaluations, trained)], "Glossary")


_LOCK = "What may change a result, as the lock of each run records it, and the command that repeats the run."


def _episodes(runs: Sequence[Run], chosen: Sequence[tuple[Run, list[Row]]]) -> Chapter:
    of = sum(len(run.episodes) for run in runs)
    if not of:
        return Chapter("Episodes", ["No episode was recorded in these runs."])
    player = show_player([episode for run, rows in chosen for episode in read_episodes(run, rows)])
    counted = f"{player.episodes} of {of} recorded episodes: failed ones first. Choose others with --show KEY or TASK."
    if player.left_out:
        counted += f" {player.left_out} more were chosen and left out: the page would grow too large."
    if player.shortened:
        counted += f" Of {player.shortened} only the first turns are shown, for they are too long."
    return Chapter("Episodes", [counted, *map(Widget, player.parts)])


def _summary(evaluations: Sequence[Evaluation], trained: Sequence[Training]) -> Chapter:
    tables = []
    if evaluations:
        tables.append(Table("Evaluations", _EVALUATED, [_evaluated(run) for run in evaluations]))
    if trained:
        tables.append(Table("Training runs", _TRAINED, [_trained(run) for run in trained]))
    said = (
        "Strict counts every planned episode, errors as failures; scored counts only episodes played to an end; "
        "coverage is the one over the other. Intervals are at 95 %, over tasks."
    )
    return Chapter("Summary", [list(_headline(tables)), said, *tables, *_reached(evaluations)])


_EVALUATED = (
    "run", "environment", "success, strict", "success, scored", "coverage", "reward", "turns", "invalid", "tokens",
    "tasks", "planned", "scored", "status",
)  # fmt: skip


def _evaluated(run: Evaluation) -> list[Cell | str | int | None]:
    summary = run.summary
    return [
        run.label,
        run.evidence.env,
        interval(summary["success"], summary["low"], summary["high"], rate=True),
        percent(summary["success_scored"]),
        percent(summary["coverage"]),
        interval(summary["reward"], summary["reward_low"], summary["reward_high"]),
        number(summary["turns"]),
        percent(summary["invalid_rate"]),
        number(summary["tokens"], 1),
        summary["n"],
        summary["planned"],
        summary["scored"],
        run.evidence.status,
    ]


def _reached(evaluations: Sequence[Evaluation]) -> list[Table]:
    """Show how far episodes came, of runs whose environment says so."""
    summaries = [(run.label, run.summary) for run in evaluations]
    known = [(label, said) for label, said in summaries if any(said[rate] is not None for rate in REACHED)]
    rows: list[list[Cell | str | int | None]] = [
        [label, *(percent(said[rate]) for rate in REACHED)] for label, said in known
    ]
    columns = ("run", *(rate.removesuffix("_rate") for rate in REACHED))
    return [Table("How far planned episodes came (G-RA)", columns, rows)] if rows else []


_TRAINED = (
    "run", "environment", "seed", "best on valid", "at update", "last on valid", "last reward", "updates", "episodes",
    "sampled tokens", "CPU time", "status",
)  # fmt: skip


def _trained(run: Training) -> list[Cell | str | int | None]:
    last, best = run.rows[-1], run.best
    return [
        run.label,
        run.env,
        run.state["config"].get("seed", 0),
        _valid(best),
        None if best is None else best["update"],
        _valid(run.validated[-1] if run.validated else None),
        number(last.get("episode/reward")),
        last["update"],
        last.get("total/episodes"),
        last.get("total/tokens"),
        seconds(last.get("total/cpu_seconds")),
        run.state["status"],
    ]


def _valid(row: Row | None) -> Cell:
    if row is None or not row.get("valid/episodes"):
        return percent(None if row is None else row["valid/success"])
    n = int(row["valid/episodes"])
    band = wilson(round(row["valid/success"] * n), n)
    return interval(row["valid/success"], band.low, band.high, rate=True)


def _bands(trained: Sequence[Training]) -> str:
    several = any(len(group.runs) > 1 for group in group_runs(trained))
    if several:
        return "Runs that differ only in their seed are one curve: their mean and, from three on, its 95 % t interval."
    return "Bands are 95 % intervals over the tasks of an update. They say nothing about other seeds."


def _traced(run: Evaluation) -> Traces:
    rows = [row for row in run.episodes if row["scored"]]
    return read_traces(run, read_episodes(run, evenly(rows, TRACED)))


def _sampled(traces: Traces) -> str:
    whole = len(traces.run.evidence.rows)
    how = "all" if traces.episodes == whole else f"{traces.episodes} of {whole}, evenly spaced,"
    silent = (
        "" if traces.entropy_by_turn else " No entropies were recorded: this policy does not tell its probabilities."
    )
    return f"{traces.run.label}: {how} scored episodes were read.{silent}"


_TASK = ("task", "seed", "attempts", "success", "reward", "turns", "invalid actions", "tokens", "ends")


def _tasks(run: Evaluation) -> Table:
    by_task: dict[str, list[Row]] = {task: [] for task in run.evidence.tasks}
    seeds = {planned.task: planned.seed for planned in run.planned}
    for planned in run.planned:
        if planned.key in run.evidence.rows:
            by_task[planned.task].append(run.evidence.rows[planned.key])
    rows = [_task(task, str(seeds[task]), by_task[task]) for task in _shown_tasks(by_task)]
    return Table(f"Tasks of {run.label}", _TASK, rows)


def _shown_tasks(by_task: dict[str, list[Row]]) -> list[str]:
    """Choose the tasks of a table: evenly among the unsolved and the solved, where they are too many."""
    is_solved = {task: bool(rows) and all(row["success"] for row in rows) for task, rows in by_task.items()}
    solved = [task for task in by_task if is_solved[task]]
    others = [task for task in by_task if not is_solved[task]]
    room = max(TASKS // 2, TASKS - len(solved))
    shown = {*evenly(others, room), *evenly(solved, max(TASKS - len(others), TASKS - room))}
    return [task for task in by_task if task in shown]


def _task(task: str, seed: str, rows: Sequence[Row]) -> list[Cell | str | int | None]:
    def mean(field: str) -> float | None:
        return sum(row[field] for row in rows) / len(rows) if rows else None

    verdicts = [row["success"] for row in rows if row["success"] is not None]
    ends = ", ".join(sorted({str(row["end"]) for row in rows}))
    return [
        task,
        seed,
        len(rows),
        percent(sum(verdicts) / len(verdicts) if verdicts else None),
        number(mean("reward")),
        number(mean("turns"), 1),
        number(mean("invalid"), 1),
        number(mean("tokens"), 1),
        ends or "not scored",
    ]


def _left_out(evaluations: Sequence[Evaluation]) -> list[str]:
    return [
        f"{run.label}: {TASKS} of {len(run.evidence.tasks)} tasks are shown, chosen evenly among unsolved and solved "
        f"ones; episodes.jsonl holds all."
        for run in evaluations
        if len(run.evidence.tasks) > TASKS
    ]


def _circumstances(run: Run) -> Table:
    rows = [("command", _command(run)), ("directory", run.run.path.name)]
    if isinstance(run, Training):
        rows += [("choice", str(choice)) for choice in run.state.get("choices", ())]
    rows += [(field, _compact(value)) for field, value in sorted(run.run.lock.items())]
    return Table(run.label, ("field", "value"), rows)


def _configuration(run: Run) -> Iterator[Excerpt]:
    path = run.run.path / "config.toml"
    if path.is_file():
        yield Excerpt(f"config.toml of {run.label}", path.read_text(encoding="utf-8", errors="replace"))


def _command(run: Run) -> str:
    verb = "eval" if isinstance(run, Evaluation) else "train"
    return f"agentbench {verb} --config {shlex.quote(f'{run.run.path.name}/config.toml')}"


def _compact(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _glossary(evaluations: Sequence[Evaluation], trained: Sequence[Training]) -> Table:
    logged = {name for run in trained for row in run.rows for name in row}
    logged |= {f"eval/{name}" for run in evaluations for name, value in run.summary.items() if value is not None}
    metrics: list[Metric] = [
        metric
        for metric in (*METRICS.values(), *FAMILIES.values())
        if metric.name in logged or f"{metric.name[:-1]}0" in logged
    ]
    better = {"higher": "more", "lower": "less", "neither": "–"}
    rows = [[m.name, m.unit, better[m.better], m.meaning, ", ".join(m.also) or "–"] for m in metrics]
    return Table("Metrics", ("name", "unit", "better", "meaning", "also known as"), rows)


def _title(runs: Sequence[Run]) -> str:
    return f"Report: {runs[0].label}" if len(runs) == 1 else f"Report of {len(runs)} runs"


def _lead(runs: Sequence[Run]) -> str:
    return ", ".join(run.run.path.name for run in runs)


def _headline(tables: Sequence[Table]) -> Iterator[Fact]:
    """Yield what stands out: of a single run its main numbers, of several runs the one that a reader came for."""
    several = sum(len(table.rows) for table in tables) > 1
    for table in tables:
        shown = _EVALUATED[2:8] if table.columns is _EVALUATED else _TRAINED[3:8]
        for row in table.rows[:6]:
            for name in shown[:1] if several else shown:
                mean, _, rest = as_cell(row[table.columns.index(name)]).text.partition(" [")
                ends = f"95 %: [{rest}" if rest else ""
                yield (
                    Fact(str(row[0]), mean, f"{name}; {ends}" if ends else name) if several else Fact(name, mean, ends)
                )
