"""What a gate found, told to GitHub Actions: annotations, the step's summary, and its outputs.

Annotations are workflow commands on standard output; summary and outputs are files that the runner names in
`GITHUB_STEP_SUMMARY` and `GITHUB_OUTPUT`. Names of models and messages are data: nothing in them can start a command,
end a line or be read as markup.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentbench.core.errors import RecordError
from agentbench.core.plain import plain
from agentbench.evaluate.gate import Judged, Rule, overall
from agentbench.report.tables import Table, Value, inline, interval, markdown, number, percent

ANNOTATIONS = 10
"""GitHub shows that many of a step and drops the rest."""

_LEVELS = {"regressed": "error", "failed": "error", "inconclusive": "warning", "ok": "notice"}


def annotations(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield one workflow command per environment, the worst first, and one that counts what is left out."""
    order = ("error", "warning", "notice")
    lines = sorted(((_LEVELS[one.answer], one) for one in judged), key=lambda line: order.index(line[0]))
    shown = lines if len(lines) <= ANNOTATIONS else lines[: ANNOTATIONS - 1]
    for level, one in shown:
        yield f"::{level} title={_property(f'{one.env}: {one.word}')}::{_message('; '.join(one.reasons))}"
    if len(shown) < len(lines):
        yield f"::notice title=agentbench gate::{len(lines) - len(shown)} more environments are in the summary"


def summary(judged: Sequence[Judged], rule: Rule) -> str:
    """Return the step's summary in Markdown."""
    rows: list[tuple[Value, ...]] = []
    for one in judged:
        compared = one.compared
        if compared is None:
            rows.append((one.env, one.run.name, one.word, None, None, None, None, _flips(one)))
            continue
        result, rate = compared.paired, compared.metric == "success"
        show = percent if rate else number
        change = interval(result.delta, result.low, result.high, rate=rate)
        p = number(compared.p_worse, 3)
        rows.append(
            (one.env, one.run.name, one.word, show(compared.before), show(compared.after), change, p, _flips(one))
        )
    columns = ("environment", "model", "verdict", "baseline", "now", "change", "p worse", "tasks lost, won")
    heading = f"### agentbench gate: {overall(judged)}\n\n"
    reasons = "".join(f"- {inline(one.env)}: {inline('; '.join(one.reasons))}\n" for one in judged)
    rules = f"margin {rule.margin:g}, one-sided alpha {rule.alpha:g}"
    return f"{heading}{markdown(Table('', columns, rows))}\n{reasons}\n{rules}\n"


def outputs(judged: Sequence[Judged], report: Path | None = None) -> dict[str, str]:
    """Return the step's outputs: the verdict, the numbers of the environment that did worst, and where the page is."""
    worst = next(one for one in judged if one.answer == overall(judged))
    values = {"verdict": overall(judged), "environment": worst.env, "run": str(worst.run.path)}
    if worst.compared is not None:
        result = worst.compared.paired
        values |= {"score": f"{worst.compared.after:.6g}", "delta": f"{result.delta:.6g}"}
        values |= {"ci_low": f"{result.low:.6g}", "ci_high": f"{result.high:.6g}"}
    if report is not None:
        values["report"] = str(report)
    return {name: " ".join(plain(value).split()) for name, value in values.items()}


def append(judged: Sequence[Judged], rule: Rule, variables: Mapping[str, str], report: Path | None = None) -> None:
    """Append summary and outputs to the files that the runner named.

    Args:
        judged: What the gate found.
        rule: By which rule.
        variables: `GITHUB_STEP_SUMMARY` and `GITHUB_OUTPUT` name the files; what is absent is not written.
        report: The page about the runs, if there is one.

    Raises:
        RecordError: One cannot be written.
    """
    told = "".join(f"{name}={value}\n" for name, value in outputs(judged, report).items())
    for variable, text in (("GITHUB_STEP_SUMMARY", summary(judged, rule)), ("GITHUB_OUTPUT", told)):
        if not variables.get(variable):
            continue
        try:
            with Path(variables[variable]).open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise RecordError(f"cannot write {variables[variable]} ({variable}): {error.strerror}") from error


def _flips(judged: Judged) -> str:
    compared = judged.compared
    return "" if compared is None else f"{len(compared.lost)}, {len(compared.won)}"


def _message(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
