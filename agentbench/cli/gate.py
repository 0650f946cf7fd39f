"""`agentbench gate`: is a new checkpoint as good as the one before?"""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from agentbench.cli.options import merge, options_of
from agentbench.core.errors import UsageError
from agentbench.evaluate.config import EvalConfig, read_toml

if TYPE_CHECKING:
    from agentbench.evaluate.baseline import Measured
    from agentbench.evaluate.evidence import Evidence
    from agentbench.evaluate.gate import Judged, Rule

Inconclusive = Literal["pass", "fail"]


class Evaluations(EvalConfig):
    """What to evaluate for a gate: one model on several environments."""

    env: tuple[str, ...] = ()  # type: ignore[assignment]
    """An environment; may be given several times. All of the baseline if absent."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the gate should do with the runs."""

    baseline: Path | None
    update: bool
    rule: "Rule"
    inconclusive: Inconclusive
    junit: Path | None
    report: Path | None
    json: bool


@options_of(Evaluations)
def gate(
    given: dict[str, Any],
    config: Annotated[
        Path | None, typer.Option(help="TOML file of the evaluation.", envvar="AGENTBENCH_CONFIG")
    ] = None,
    run: Annotated[list[Path] | None, typer.Option("--run", help="Judge this run directory; evaluate nothing.")] = None,
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Baseline file to compare with.")] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write what was measured into the baseline file, judge nothing.")
    ] = False,
    margin: Annotated[float, typer.Option("--margin", help="Loss that may go unseen.")] = 0.05,
    alpha: Annotated[float, typer.Option("--alpha", help="How often each verdict may be wrong.")] = 0.05,
    inconclusive: Annotated[str, typer.Option("--inconclusive", help="pass (0) or fail (6).")] = "pass",
    fail_under: Annotated[
        list[str] | None, typer.Option("--fail-under", help="METRIC=VALUE: fail where the run's summary is below it.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page about the runs, as agentbench report does.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")] = False,
) -> None:
    """Compare a checkpoint with a baseline: regressed, ok or inconclusive."""
    rule = _rule(margin, alpha, fail_under or [])
    if inconclusive not in get_args(Inconclusive):
        raise UsageError(f"--inconclusive takes pass or fail, got {inconclusive!r}")
    if update_baseline and baseline is None:
        raise UsageError("--update-baseline needs --baseline FILE, the file to write")
    if baseline is None and not rule.fail_under:
        raise UsageError("there is nothing to judge by: give --baseline FILE, or --fail-under METRIC=VALUE")
    if report is not None and report.suffix not in (".html", ".htm"):
        raise UsageError(f"--report takes a file that ends with .html, got {report}")
    known = _known(baseline, update=update_baseline)
    runs = _loaded(run) if run else _evaluated(merge(read_toml(config) if config else {}, given), known, json=json)
    asked = Asked(baseline, update_baseline, rule, inconclusive, junit, report, json)  # type: ignore[arg-type]
    _answer(runs, known, asked)


def _rule(margin: float, alpha: float, thresholds: Sequence[str]) -> "Rule":
    from agentbench.evaluate.gate import Rule

    if not 0 < margin < math.inf:
        raise UsageError(f"--margin takes a positive loss, got {margin}")
    if not 0.5 < 1 - alpha < 1:
        raise UsageError(f"--alpha takes a probability below 0.5, got {alpha}")
    fail_under = {}
    for text in thresholds:
        name, equals, value = text.partition("=")
        try:
            fail_under[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip() or fail_under[name.strip()] != fail_under[name.strip()]:
            raise UsageError(f"--fail-under takes METRIC=VALUE, got {text!r}") from None
    return Rule(margin, alpha, fail_under)


def _known(path: Path | None, *, update: bool) -> "dict[str, Measured]":
    from agentbench.evaluate.baseline import read_baseline

    if path is None or (update and not path.exists()):
        return {}
    known = read_baseline(path)
    if not known and not update:
        raise UsageError(f"the baseline {path} holds no environment; measure one with --update-baseline")
    return known


def _loaded(paths: Sequence[Path]) -> "dict[str, Evidence]":
    from agentbench.evaluate.evidence import Evidence

    runs: dict[str, Evidence] = {}
    for path in paths:
        evidence = Evidence.load(path)
        if evidence.env in runs:
            raise UsageError(f"--run: {path} and {runs[evidence.env].path} are both of {evidence.env}")
        runs[evidence.env] = evidence
    return runs


def _evaluated(values: Mapping[str, Any], known: "Mapping[str, Measured]", *, json: bool) -> "dict[str, Evidence]":
    """Evaluate a model on every environment that was named, as its baseline was evaluated."""
    from agentbench.cli.eval import run_evaluation
    from agentbench.evaluate.evaluate import require_valid

    own = {key: value for key, value in values.items() if key != "env"}
    named = values.get("env") or [measured.config["env"] for measured in known.values()]
    if not named:
        raise UsageError("--env is missing: there is no baseline yet that names environments")
    configs = []
    for env in [named] if isinstance(named, str) else named:
        config = EvalConfig.parse({**own, "env": env})
        resolved = config.resolve_env()
        measured = known.get(f"{resolved.id}:{resolved.split}")
        if measured is not None:
            config = EvalConfig.parse({**merge(measured.config, own), "env": env})
        configs.append(config)
    paths = []
    for config in configs:
        evaluated = run_evaluation(config, json=json, title=f"{config.model} on {config.env}")
        require_valid(evaluated)
        paths.append(evaluated.run_dir)
    return _loaded(paths)


def _answer(runs: "Mapping[str, Evidence]", known: "Mapping[str, Measured]", asked: Asked) -> None:
    from agentbench.cli.console import emit
    from agentbench.evaluate.gate import exit_code, judge, overall
    from agentbench.report.junit import facts, write_junit
    from agentbench.report.report import write_report

    judged = judge(runs, {} if asked.update else known, asked.rule)
    code = exit_code(judged, inconclusive=asked.inconclusive)
    if asked.update and code == 0:
        _update(runs, known, asked)
    _tell(judged, asked)
    if asked.junit is not None:
        write_junit(asked.junit, judged, asked.rule, inconclusive_fails=asked.inconclusive == "fail")
    if asked.report is not None:
        write_report([run.path for run in runs.values()], asked.report)
    _tell_github(judged, asked)
    if asked.json:
        for one in judged:
            emit(event="judged", env=one.env, reasons=one.reasons, **_finite(facts(one, asked.rule)))
        emit(event="done", verdict="updated" if asked.update and code == 0 else overall(judged), exit_code=code)
    if code:
        raise typer.Exit(code)


def _update(runs: "Mapping[str, Evidence]", known: "Mapping[str, Measured]", asked: Asked) -> None:
    from agentbench.cli.console import say
    from agentbench.evaluate.baseline import Measured, write_baseline

    assert asked.baseline is not None
    measured = {name: Measured.of(run) for name, run in runs.items()}
    write_baseline(asked.baseline, {**known, **measured})
    say(f"{asked.baseline}: {', '.join(measured)} measured anew")


def _tell(judged: "Sequence[Judged]", asked: Asked) -> None:
    from agentbench.cli.console import number, percent, say, say_table
    from agentbench.evaluate.evidence import said

    rows = []
    for one in judged:
        compared = one.compared
        if compared is None:
            continue
        result, show = compared.paired, percent if compared.metric == "success" else number
        change = f"{show(result.delta)} [{show(result.low)}, {show(result.high)}]"
        flips = f"{len(compared.lost)}, {len(compared.won)}"
        rows.append((one.env, show(compared.before), show(compared.after), change, flips, one.word))
    if rows:
        change = f"change ({100 * (1 - asked.rule.alpha):g} %)"
        say_table("gate", ("environment", "baseline", "now", change, "lost, won", "verdict"), rows)
    for one in judged:
        if asked.update and not one.unmet:
            continue
        say(f"{one.env}: {one.word}: {'; '.join(one.reasons)}")
        compared = one.compared
        if compared is None:
            continue
        if compared.severe:
            say(f"  always succeeded, now always fail (chance {compared.p_severe:.2g}): {', '.join(compared.severe)}")
        if compared.marks:
            say(f"  not the same in both (baseline, now): {said(compared.marks)}")
        sizes = " or ".join(f"{size.tasks} tasks x {_trials(size.trials)}" for size in compared.needed)
        say(f"  an 80 % chance of ok for an equal checkpoint takes about {sizes}, here and in the baseline")
        say(f"  run: {one.run.path}")


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _tell_github(judged: "Sequence[Judged]", asked: Asked) -> None:
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from agentbench.report.github import annotations, append

    stream = sys.stderr if asked.json else sys.stdout
    for line in annotations(judged):
        stream.write(line + "\n")
    stream.flush()
    append(judged, asked.rule, os.environ, asked.report)


def _finite(record: Mapping[str, Any]) -> dict[str, Any]:
    """JSON knows no infinity: what is unbounded is null."""
    return {k: None if isinstance(v, float) and v in (float("inf"), float("-inf")) else v for k, v in record.items()}
