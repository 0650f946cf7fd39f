"""`agentbench eval`: the main job."""

from pathlib import Path
from typing import Annotated, Any

import typer

from agentbench.cli.console import Ticker, emit, interval, number, percent, say, say_table
from agentbench.cli.options import merge, options_of
from agentbench.core.errors import Interrupted, UsageError
from agentbench.evaluate.config import EvalConfig, read_toml
from agentbench.evaluate.grid import Grid, is_grid, play_grid
from agentbench.metrics.collect import REACHED

Summary = dict[str, Any]

GRID_COLUMNS = ("environment", "success", "tasks", "reward", "turns", "invalid", "coverage")


@options_of(EvalConfig)
def eval_(
    given: dict[str, Any],
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the same keys.", envvar="AGENTBENCH_CONFIG")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Run directory to go on with.")] = None,
    scaling: Annotated[bool, typer.Option(help="Also show success by turn and token budget, and best of n.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Evaluate a policy on an environment: resumable, reproducible, with error bars."""
    from agentbench.evaluate.evaluate import require_valid

    if config is not None and resume is not None:
        raise UsageError("--resume brings its own configuration: leave --config out")
    source = resume / "config.toml" if resume is not None else config
    if resume is not None and not resume.is_dir():
        raise UsageError(f"there is no run directory {resume}")
    file = read_toml(source) if source is not None else {}
    parsed = EvalConfig.parse(merge(file, given))
    if is_grid(parsed.env):
        run_grid(parsed, resume=resume, json=json)
        return
    evaluated = run_evaluation(parsed, resume=resume, json=json)
    if scaling:
        show_scaling(evaluated.run_dir, json=json)
    if json:
        emit(event="done", status=evaluated.status, run_dir=str(evaluated.run_dir), summary=evaluated.summary)
    require_valid(evaluated)


def run_evaluation(
    config: EvalConfig, *, resume: Path | None = None, json: bool = False, title: str | None = None
) -> Any:
    """Evaluate with progress, and show the summary.

    Args:
        config: What to do.
        resume: A run to go on with.
        json: Also write events on stdout.
        title: What to call the run while it goes on; given, the caller shows the summary.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the message says how to go on.
    """
    from agentbench.evaluate.evaluate import Progress, evaluate

    where: Path | None = resume
    with Ticker(config.episodes * config.trials, title or f"{config.model} on {config.env}") as ticker:

        def listen(progress: Progress) -> None:
            nonlocal where
            where = progress.run_dir
            ticker.total = progress.planned
            ticker.tell(progress.scored)
            if json:
                event = {"event": "started", "run_dir": str(where)} if progress.row is None else {"event": "episode"}
                emit(**event, done=progress.scored, planned=progress.planned, **(progress.row or {}))

        try:
            evaluated = evaluate(config, resume=resume, listen=listen)
        except (KeyboardInterrupt, Interrupted):
            later = f"go on with: agentbench eval --resume {where}" if where else "nothing was started yet"
            raise Interrupted(f"interrupted; {later}") from None
    if title is None:
        show_summary(config, evaluated.run_dir, evaluated.summary)
    return evaluated


def run_grid(config: EvalConfig, *, resume: Path | None, json: bool) -> None:
    """Evaluate one policy on every variant of a grid, and show one table.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the message says how to go on with the whole grid.
        RunInvalid: A cell is missing too many episodes; the others are played all the same.
    """
    from agentbench.core.errors import RunInvalid
    from agentbench.core.records import RunDirectory

    grid = Grid.create(config) if resume is None else Grid.open(resume, config)

    def play(cell: EvalConfig, run: Path | None) -> None:
        run_evaluation(cell, resume=run, json=json, title=cell.env)

    try:
        play_grid(grid, config, play)
    except Interrupted:
        raise Interrupted(f"interrupted; go on with: agentbench eval --resume {grid.path}") from None
    rows = []
    for cell in grid.cells():
        assert cell.run is not None
        summary = RunDirectory.open(cell.run).state["summary"]
        cells = (interval(summary), str(summary["n"]), reward(summary), number(summary["turns"], 1))
        rows.append((cell.env, *cells, percent(summary["invalid_rate"]), percent(summary["coverage"])))
        if json:
            emit(event="cell", env=cell.env, run_dir=str(cell.run), complete=cell.complete, summary=summary)
    say_table(f"{config.model} on {config.env}", GRID_COLUMNS, rows)
    say(f"grid: {grid.path}")
    invalid = [cell.env for cell in grid.cells() if not cell.complete]
    if invalid:
        raise RunInvalid(f"{', '.join(invalid)}: too few episodes were scored; resume with --resume {grid.path}")


def show_summary(config: EvalConfig, run_dir: Path, summary: Summary) -> None:
    """Print the headline, the three denominators and where the run is."""
    rows = [
        ("success (strict)", f"{interval(summary)}   {_tasks(summary, config)}, {summary['method'] or 'no'} interval"),
        ("success (scored)", percent(summary["success_scored"])),
        ("coverage", f"{percent(summary['coverage'])}   {summary['scored']} of {summary['planned']} episodes"),
        ("reward", reward(summary)),
        ("turns", number(summary["turns"])),
        ("invalid actions", percent(summary["invalid_rate"])),
        *((name.replace("_", " "), percent(summary[name])) for name in REACHED if summary[name] is not None),
        ("tokens sampled", number(summary["tokens"], 1)),
        ("ends", ", ".join(f"{end} {count}" for end, count in sorted(summary["ends"].items())) or "-"),
    ]
    if summary["failures"]:
        rows.append(("failures", ", ".join(f"{cause} {count}" for cause, count in summary["failures"].items())))
    width = max(len(name) for name, _ in rows)
    say(f"{config.model} on {config.env}")
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")
    say(f"run: {run_dir}")


def _tasks(summary: Summary, config: EvalConfig) -> str:
    """Write how many tasks there were, and why they were not more."""
    n = summary["n"]
    said = f"{n} task" if n == 1 else f"{n} tasks"
    return said if n >= config.episodes else f"{said} (the split gave no more distinct ones)"


def reward(summary: Summary) -> str:
    """Write the mean reward and its interval."""
    if summary["reward_low"] is None:
        return number(summary["reward"])
    return f"{number(summary['reward'])} [{number(summary['reward_low'])}, {number(summary['reward_high'])}]"


def show_scaling(run_dir: Path, *, json: bool) -> None:
    """Print how success grows with turns, tokens and attempts, and keep the table beside the run."""
    from agentbench.core.records import RunDirectory, write_json
    from agentbench.evaluate.scaling import scale

    run = RunDirectory.open(run_dir)
    points = [point._asdict() for point in scale(run.plan(), run.rows())]
    write_json(run_dir / "scaling.json", points)
    if json:
        emit(event="scaling", points=points)
    rows = [(f"{p['budget']} {p['size']}", interval({**p, "success": p["mean"]}), str(p["n"])) for p in points]
    say_table("success by budget", ("budget", "success", "tasks"), rows)
