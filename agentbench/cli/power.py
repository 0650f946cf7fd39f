"""`agentbench power`: how many tasks and trials will show a difference, and what will they cost?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agentbench.evaluate.evidence import Evidence
    from agentbench.evaluate.power import Chance, Plan


def power(
    run: Annotated[Path, typer.Argument(help="Run directory of the baseline.")],
    delta: Annotated[float, typer.Option("--delta", help="Difference of the means that is to be seen.")] = 0.1,
    power: Annotated[float, typer.Option("--power", help="Chance of seeing it.")] = 0.8,
    level: Annotated[float, typer.Option("--level", help="How often chance alone may show a difference.")] = 0.05,
    margin: Annotated[float, typer.Option("--margin", help="Loss that `agentbench gate` is to rule out.")] = 0.05,
    metric: Annotated[
        str, typer.Option("--metric", help="What differs: success, reward, turns, tokens or invalid.")
    ] = "success",
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Say how many tasks and trials a difference needs, and what they cost."""
    from agentbench.cli.console import emit
    from agentbench.core.errors import UsageError
    from agentbench.evaluate.evidence import METRICS, Evidence
    from agentbench.evaluate.power import Question, plan

    wanted = next((known for known in METRICS if known == metric), None)
    if wanted is None:
        raise UsageError(f"no metric {metric!r}; known: {', '.join(METRICS)}")
    question = Question(delta, margin, power, level, wanted)
    baseline = Evidence.load(run)
    answer = plan(baseline, question)
    if json:
        for size in answer.sizes:
            emit(event="size", **size._asdict())
        for chance in answer.chances:
            emit(event="chance", **chance._asdict())
        few = answer.fewest
        needed = {"tasks": few.tasks_whole, "trials": few.trials, "episodes": few.episodes, "seconds": few.seconds}
        said = {"delta": delta, "power": power, "gain": answer.gain, "baseline": answer.variance._asdict()}
        emit(event="done", run_dir=str(run), **needed, tokens=few.tokens, **said)
    else:
        _tell(baseline, answer)


def _tell(baseline: "Evidence", answer: "Plan") -> None:
    from agentbench.cli.console import number, say, say_table

    question, variance = answer.question, answer.variance
    say(
        f"{baseline.env}, {baseline.name}: {question.metric} {variance.mean:.3f} over {variance.tasks} tasks, "
        f"trials per task: {variance.trials:.3g}, coverage {100 * baseline.coverage:.1f} %"
    )
    say(f"Variance: {number(variance.between, 4)} between tasks, {number(variance.within, 4)} within a task.")
    if variance.within is None:
        say("One trial per task does not tell the two apart: play the baseline with --trials 2 to plan with more.")
    kind = "gain" if answer.gain else "difference" if question.metric != "success" else "loss"
    say_table(
        f"Tasks to see a {kind} of {question.delta:g} with {100 * question.power:.3g} % power, if it is spread over "
        f"all tasks and if it sits in whole ones; tasks for a gate to say ok within {question.margin:g}",
        ("trials", "spread", "whole", "ok", "episodes", "baseline", "seconds", "tokens", "prompt tokens"),
        [[f"{value:,.0f}" for value in size] for size in answer.sizes],
    )
    say(
        "Episodes (enough for `whole`), seconds (of one after another) and tokens are the new policy's; "
        "`baseline` is what the baseline has still to play."
    )
    trials = [str(size.trials) for size in answer.sizes]
    say_table(
        "Chance of seeing it in %, if it sits in whole tasks - if it is spread",
        ("tasks", *(f"{k} trials" if k != "1" else "1 trial" for k in trials)),
        _grid(answer.chances),
    )
    few = answer.fewest
    say(f"Fewest episodes: {few.tasks_whole} tasks, {few.trials} trial{'s' * (few.trials > 1)} each.")


def _grid(chances: "tuple[Chance, ...]") -> list[list[str]]:
    rows: dict[int, list[str]] = {}
    for chance in chances:
        cells = rows.setdefault(chance.tasks, [str(chance.tasks)])
        cells.append(f"{100 * chance.whole:.0f} - {100 * chance.spread:.0f}")
    return list(rows.values())
