"""The baseline file of a gate: what a checkpoint achieved, task by task, small enough to be kept in a repository.

    {"format": "agentbench-baseline/1",
     "environments": {"sokoban/tiny@0:test": {
        "config":  what to evaluate again: panel, sampling, limits
        "lock":    what was measured and under which circumstances
        "metric":  "success", or "reward" where the environment knows no success
        "tasks":   {"0017f3c2a4b19d55": "3/4", ...}      successes / attempts, or a mean reward
        "behaviour": a hash over all turns, "coverage": 1.0}},
     "sha256": over all of the above}

Sorted and one line per task, so that a change of the file shows in a diff what changed. The hash finds edits by hand:
a baseline is measured, not written.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from agentbench.core.errors import IntegrityError, RunInvalid, UsageError
from agentbench.core.reading import parse_json
from agentbench.core.records import digest, write_text
from agentbench.evaluate.evidence import Evidence, Metric

FORMAT = "agentbench-baseline/1"

_LEFT_OUT = ("git_commit", "git_dirty", "python", "hardware")
"""Fields of a lock that are for the reader of a run; in a file that is kept they would only change."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured on one environment."""

    config: Mapping[str, Any]
    """The configuration of the evaluation, without its model."""
    lock: Mapping[str, Any]
    metric: Metric
    tasks: Mapping[str, str | float]
    """By task: `successes/attempts`, or a mean reward."""
    behaviour: str | None
    """Equal behaviours are equal in every turn of every episode; None if something was not scored."""
    coverage: float

    @classmethod
    def of(cls, run: Evidence) -> Self:
        """Take from a run what a later one is compared with."""
        metric: Metric = "success" if run.knows_success else "reward"
        tasks = {task: _write(metric, values) for task, values in run.outcomes(metric).items()}
        lock = {field: value for field, value in run.lock.items() if field not in _LEFT_OUT}
        config = {key: value for key, value in run.config.items() if key != "model" and value is not None}
        return cls(config, lock, metric, tasks, behaviour(run), run.coverage)

    def outcomes(self) -> dict[str, tuple[float, ...]]:
        """Return the outcome of each attempt by task; of a mean reward, the mean as a single one."""
        return {task: _read(value) for task, value in self.tasks.items()}

    def check(self, name: str) -> None:
        """Make sure that everything which is read later is there.

        Raises:
            IntegrityError: Something is not.
        """
        try:
            complete = self.lock["panel"] and self.metric in ("success", "reward") and dict(self.config)
            values = [value for task in self.outcomes().values() for value in task]
        except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
            raise IntegrityError(f"the baseline of {name} is damaged: {type(error).__name__}: {error}") from error
        if not (complete and values and all(map(math.isfinite, values))):
            raise IntegrityError(f"the baseline of {name} is damaged: it lacks a panel, a metric or the tasks")


def behaviour(run: Evidence) -> str | None:
    """Return a hash over all turns of a run, or None if an episode was not scored."""
    if run.coverage < 1:
        return None
    return digest(sorted((key, row["hash"]) for key, row in run.rows.items()))


def read_baseline(path: Path) -> dict[str, Measured]:
    """Read a baseline file: what was measured, by `name/variant@version:split`.

    Raises:
        UsageError: There is no such file, or it is none of this format.
        IntegrityError: It was changed by hand, or is damaged.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the baseline {path}: {error.strerror}; make one with --update-baseline"
        ) from error
    value = parse_json(f"the baseline {path} is no JSON", content)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise UsageError(f"{path} is no baseline of format {FORMAT} (found {found!r}); make one with --update-baseline")
    if value.get("sha256") != _hash(value):
        raise IntegrityError(f"the baseline {path} was changed after it was written; measure it with --update-baseline")
    try:
        found = {name: Measured(**entry) for name, entry in value["environments"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(f"the baseline {path} is damaged: {error}") from error
    for name, measured in found.items():
        measured.check(name)
    return found


def write_baseline(path: Path, environments: Mapping[str, Measured]) -> None:
    """Write a baseline file.

    Raises:
        RunInvalid: A run is not complete enough to be compared with.
        RecordError: It cannot be written.
    """
    for name, measured in environments.items():
        if not measured.tasks:
            raise RunInvalid(f"{name} has no task to compare with")
    value = {"format": FORMAT, "environments": {name: asdict(measured) for name, measured in environments.items()}}
    write_text(path, json.dumps({**value, "sha256": _hash(value)}, indent=1, sort_keys=True) + "\n")


def _hash(value: Mapping[str, Any]) -> str:
    return digest({key: inner for key, inner in value.items() if key != "sha256"})


def _write(metric: Metric, values: tuple[float, ...]) -> str | float:
    return f"{sum(map(int, values))}/{len(values)}" if metric == "success" else math.fsum(values) / len(values)


def _read(value: str | float) -> tuple[float, ...]:
    if not isinstance(value, str):
        return (float(value),)
    successes, attempts = map(int, value.split("/"))
    if not 0 <= successes <= attempts or attempts == 0:
        raise ValueError(f"{value!r} are no successes of attempts")
    return (1.0,) * successes + (0.0,) * (attempts - successes)
