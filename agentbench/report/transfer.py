"""Transfer: trained on one complexity, evaluated on others.

A row is a policy, a column a panel of tasks. A checkpoint is called by what it was trained on, which the training run
that holds it says; the question is the one of "A Practitioner's Guide to Multi-turn Agentic RL" (arXiv 2510.01132):
does what was learnt on small worlds hold in large ones, and the other way round?
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentbench.core.errors import AgentBenchError
from agentbench.core.records import Row, RunDirectory, digest
from agentbench.core.registry import resolve
from agentbench.report.chapters import Chapter
from agentbench.report.figures import draw_matrix
from agentbench.report.runs import Evaluation
from agentbench.report.tables import Table, Value, interval

PANEL = ("env", "split", "env_args", "panel", "limits", "context")
"""Fields of a lock in which the evaluations of a column agree."""


class Matrix(NamedTuple):
    """Policies and panels, and the summary where a policy played a panel."""

    policies: Sequence[str]
    panels: Sequence[str]
    summaries: Mapping[tuple[str, str], Row]


def transfer_chapters(evaluations: Sequence[Evaluation]) -> Iterator[Chapter]:
    """Yield the chapter, if at least two policies have played the same two panels."""
    matrix = transfer(evaluations)
    if matrix is None:
        return
    said = (
        "A row is a policy, called by what it was trained on; a column is one panel of tasks under one protocol. "
        "Success is strict, with its 95 % interval over tasks. Each policy is one training run: the intervals say "
        "nothing about other training seeds."
    )
    yield Chapter("Transfer", [said, _table(matrix), _figure(matrix)])


def transfer(evaluations: Sequence[Evaluation]) -> Matrix | None:
    """Arrange evaluations as a matrix, or return None where no two policies share two panels.

    Of several runs of one policy on one panel the last counts.
    """
    policies = _named({str(run.evidence.config["model"]): trained_on(run) for run in evaluations})
    panels = _named({_panel_of(run): _env_of(run.evidence.lock) for run in evaluations})
    summaries = {
        (policies[str(run.evidence.config["model"])], panels[_panel_of(run)]): run.summary for run in evaluations
    }
    shared = [
        panel for panel in panels.values() if sum((policy, panel) in summaries for policy in policies.values()) > 1
    ]
    kept = [policy for policy in policies.values() if sum((policy, panel) in summaries for panel in shared) > 1]
    if len(shared) < 2 or len(kept) < 2:
        return None
    return Matrix(kept, shared, summaries)


def trained_on(run: Evaluation) -> str:
    """Return what the evaluated policy was trained on, or its name where no training run holds it."""
    model = Path(str(run.evidence.config["model"]))
    for folder in model.absolute().parents if model.name not in ("", ".") else ():
        if not (folder / "run.json").is_file():
            continue
        try:
            state = RunDirectory.open(folder).state
            config = state["config"] if state.get("kind") == "train" else None
        except AgentBenchError:
            return run.evidence.name
        if config is not None:
            return _described(str(config["env"]), config.get("env_args") or {})
    return run.evidence.name


def _env_of(lock: Mapping[str, Any]) -> str:
    name = str(lock["env"]).partition("@")[0]
    return _described(name if lock["split"] == "test" else f"{name}:{lock['split']}", lock.get("env_args") or {})


def _described(env: str, args: Mapping[str, Any]) -> str:
    """Write an environment with the arguments that are not its variant's own."""
    try:
        own: Mapping[str, Any] = resolve(env).kwargs
    except AgentBenchError:
        own = {}
    given = [f"{key}={value}" for key, value in sorted(args.items()) if key not in own or own[key] != value]
    return " ".join([env, *given])


def _panel_of(run: Evaluation) -> str:
    return digest(json.dumps({field: run.evidence.lock.get(field) for field in PANEL}, sort_keys=True, default=str))


def _named(names: Mapping[str, str]) -> dict[str, str]:
    """Give each key its name, with a number where several would have the same."""
    seen: dict[str, int] = {}
    told = {}
    for key, name in names.items():
        seen[name] = seen.get(name, 0) + 1
        told[key] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return told


def _table(matrix: Matrix) -> Table:
    def cell(policy: str, panel: str) -> Value:
        summary = matrix.summaries.get((policy, panel))
        return None if summary is None else interval(summary["success"], summary["low"], summary["high"], rate=True)

    rows = [[policy, *(cell(policy, panel) for panel in matrix.panels)] for policy in matrix.policies]
    return Table("Success, trained on (rows) and evaluated on (columns)", ("trained on", *matrix.panels), rows)


def _figure(matrix: Matrix) -> Any:
    def value(policy: str, panel: str) -> float:
        success = matrix.summaries.get((policy, panel), {}).get("success")
        return math.nan if success is None else float(success)

    return draw_matrix(
        "transfer",
        [[value(policy, panel) for panel in matrix.panels] for policy in matrix.policies],
        rows=matrix.policies,
        columns=matrix.panels,
        title="Success, trained on one and evaluated on another",
        x="evaluated on",
        y="trained on",
    )
