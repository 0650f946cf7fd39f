"""What a gate found, as JUnit XML: what Jenkins, GitLab and most other servers of continuous integration show.

One suite per environment, one case per question of the gate, and one per task. A task fails only where the severity
guard fails because of it: a task that went wrong this once is no defect, and stands in the suite's output. The file
follows the Ant schema and Jenkins' own, which differ: what is written is what both allow.
"""

import platform
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from agentbench.core.plain import plain
from agentbench.core.records import write_text
from agentbench.evaluate.gate import Judged, Rule

_NO_XML = re.compile("[\ufffe\uffff]")
"""Characters besides control characters and surrogates that XML 1.0 cannot hold, escaped or not."""


class Case(NamedTuple):
    """One test case."""

    name: str
    seconds: float = 0.0
    outcome: str = ""
    """`failure`, `error`, `skipped`, or empty for a pass."""
    message: str = ""


def write_junit(path: Path, judged: Sequence[Judged], rule: Rule, *, inconclusive_fails: bool = False) -> None:
    """Write the file.

    Args:
        path: Where.
        judged: What the gate found.
        rule: By which rule.
        inconclusive_fails: Whether an inconclusive verdict is a failure, or a case that was skipped.

    Raises:
        RecordError: It cannot be written.
    """
    root = ET.Element("testsuites")
    for number, one in enumerate(judged):
        root.append(_suite(number, one, rule, inconclusive_fails=inconclusive_fails))
    ET.indent(root)
    write_text(path, '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n")


def _suite(number: int, judged: Judged, rule: Rule, *, inconclusive_fails: bool) -> ET.Element:
    cases = [*_questions(judged, rule, inconclusive_fails=inconclusive_fails), *_tasks(judged)]
    outcomes = [case.outcome for case in cases]
    suite = ET.Element(
        "testsuite",
        id=str(number),
        name=_clean(judged.env),
        package="agentbench",
        hostname=_clean(platform.node()) or "localhost",
        timestamp=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()),
        tests=str(len(cases)),
        failures=str(outcomes.count("failure")),
        errors=str(outcomes.count("error")),
        skipped=str(outcomes.count("skipped")),
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in facts(judged, rule).items():
        ET.SubElement(properties, "property", name=name, value=_clean(str(value)))
    env = re.split("[/@:]", judged.env)[0]
    for case in cases:
        element = ET.SubElement(
            suite, "testcase", name=_clean(case.name), classname=f"agentbench.{_clean(env)}", time=f"{case.seconds:.3f}"
        )
        if case.outcome:
            ET.SubElement(element, case.outcome, type=f"agentbench.{case.outcome}", message=_clean(case.message))
    ET.SubElement(suite, "system-out").text = _clean("\n".join(_story(judged)))
    ET.SubElement(suite, "system-err")
    return suite


def facts(judged: Judged, rule: Rule) -> dict[str, str | float]:
    """Return the numbers behind a verdict, by name: for JUnit's properties and for programs."""
    known: dict[str, str | float] = {"verdict": judged.answer, "run": str(judged.run.path), "model": judged.run.name}
    known |= {"coverage": judged.run.coverage, "tasks": len(judged.run.tasks), "trials": judged.run.trials}
    compared = judged.compared
    if compared is not None:
        known |= {"metric": compared.metric, "score": compared.after, "baseline": compared.before}
        known |= {"delta": compared.paired.delta, "low": compared.paired.low, "high": compared.paired.high}
        known |= {"p_worse": compared.p_worse, "bound": compared.bound, "mde": compared.paired.mde}
        known |= {"margin": rule.margin, "alpha": rule.alpha, "severe": len(compared.severe)}
    return known


def _questions(judged: Judged, rule: Rule, *, inconclusive_fails: bool) -> Iterator[Case]:
    reason = "; ".join(judged.reasons)
    if judged.compared is not None:
        outcome = {"regressed": "failure", "inconclusive": "failure" if inconclusive_fails else "skipped"}
        yield Case("not worse than the baseline", 0.0, outcome.get(judged.verdict, ""), f"{judged.verdict}: {reason}")
    for name, least in rule.fail_under.items():
        unmet = [line for line in judged.unmet if line.startswith(f"{name} = ")]
        yield Case(f"{name} is at least {least:g}", 0.0, "failure" if unmet else "", "; ".join(unmet))


def _tasks(judged: Judged) -> Iterator[Case]:
    compared, run = judged.compared, judged.run
    severe = set(compared.severe) if compared is not None and compared.guarded else set()
    keys: dict[str, list[str]] = {}
    for planned in run.plan:
        keys.setdefault(planned.task, []).append(planned.key)
    for task, attempts in keys.items():
        rows = [run.rows[key] for key in attempts if key in run.rows]
        seconds = sum(row["env_seconds"] + row["policy_seconds"] for row in rows)
        missing = len(attempts) - len(rows)
        if missing:
            yield Case(task, seconds, "error", f"{missing} of {len(attempts)} attempts were broken by infrastructure")
        elif task in severe:
            yield Case(task, seconds, "failure", "succeeded in every attempt before, and in none now")
        else:
            yield Case(task, seconds)


def _story(judged: Judged) -> Iterator[str]:
    yield f"{judged.env}: {judged.word}"
    yield from judged.reasons
    if judged.compared is not None:
        for what, tasks in (("lost", judged.compared.lost), ("won", judged.compared.won)):
            yield f"{what}: {' '.join(tasks) or 'none'}"
    yield f"run: {judged.run.path}"


def _clean(text: str) -> str:
    return _NO_XML.sub("", plain(text))
