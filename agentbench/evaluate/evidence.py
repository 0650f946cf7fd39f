"""What one evaluation proves: who played, what was played, how each task went, what it cost.

Comparison, gate, planning and leaderboards all begin here, so that they agree on three things. The task is the unit:
a run is a value per task, the mean over its planned trials. An episode that was planned and not scored counts as a
failure (the strict denominator). And two runs are comparable only where their locks say that the same thing was
measured; `differences` names what stands against it.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

from agentbench.core.errors import IntegrityError, RunInvalid, UsageError
from agentbench.core.records import Planned, Row, RunDirectory, scored_rows
from agentbench.evaluate.lock import RULES, Difference, Kind
from agentbench.evaluate.lock import differences as lock_differences
from agentbench.policies.scripted import SCRIPTED

Metric = Literal["success", "reward", "turns", "tokens", "invalid"]
METRICS: tuple[Metric, ...] = get_args(Metric)
"""What a run says of an episode; `invalid` is the share of its turns whose action was malformed or illegal."""
HIGHER_IS_BETTER: Mapping[Metric, bool] = {
    "success": True,
    "reward": True,
    "turns": False,
    "tokens": False,
    "invalid": False,
}

COMPARED: Mapping[str, Kind] = {
    **RULES,
    # What a comparison is about.
    **dict.fromkeys(("policy", "weights", "weights_hash", "config", "model", "base_url"), "ignore"),
    # How the same panel was played: a reader must know, and may want exactly that compared.
    **dict.fromkeys(("sampling", "seed", "tokenizer", "chat_template", "dtype"), "warn"),
}
"""What a difference in each field of two locks means for a comparison: refuse, mark, or nothing."""

CONVERSATION = ("context", "sampling", "tokenizer", "chat_template", "dtype", "context_limit", "attention", "device")
"""Fields that only a policy which reads messages and samples replies has to do with."""


class Costs(NamedTuple):
    """What the scored attempts of a run cost, added up."""

    episodes: int
    turns: int
    tokens: int
    """Sampled."""
    prompt_tokens: int
    env_seconds: float
    policy_seconds: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """One evaluation, finished or not."""

    path: Path
    status: str
    """`complete`, `invalid`, `cancelled` or `started`."""
    config: Mapping[str, Any]
    """The keys of the configuration that may change a result."""
    lock: Mapping[str, Any]
    plan: tuple[Planned, ...]
    """Every planned episode: the denominator."""
    rows: Mapping[str, Row]
    """The row that counts of each planned episode that was scored, by key."""
    attempts: int
    """Rows in all, failures of infrastructure and repetitions among them."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a run directory of `agentbench eval`.

        Raises:
            UsageError: There is no run at this path, or it is a training run.
            RunInvalid: It is damaged, or nothing of it was scored.
        """
        run = RunDirectory.open(path)
        try:
            state = run.state
            if state.get("kind") == "train":
                raise UsageError(f"{path} is a training run; evaluate its checkpoints with: agentbench eval --model")
            plan, listed = tuple(run.plan()), run.rows()
            keys = {planned.key for planned in plan}
            rows = scored_rows(row for row in listed if row["key"] in keys)
            evidence = cls(path, state["status"], state["config"], run.lock, plan, rows, len(listed))
            evidence._check()
            unplayed = keys - {row["key"] for row in listed}
            if evidence.status == "complete" and unplayed:
                raise IntegrityError(f"run.json says complete, and {len(unplayed)} planned episodes have no row")
        except IntegrityError as error:
            raise RunInvalid(f"{path} is damaged and proves nothing: {error}") from error
        return evidence

    @property
    def name(self) -> str:
        """What to call the run: its policy."""
        return str(self.lock["policy"])

    @property
    def env(self) -> str:
        """`name/variant@version:split`."""
        return f"{self.lock['env']}:{self.lock['split']}"

    @property
    def scripted(self) -> bool:
        """True if no model played; what conversations look like then changes nothing."""
        return self.name in SCRIPTED and "weights" not in self.lock

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of the panel, in the order of the plan."""
        return tuple(dict.fromkeys(planned.task for planned in self.plan))

    @property
    def trials(self) -> int:
        """Planned attempts at each task."""
        return max(planned.trial for planned in self.plan) + 1

    @property
    def coverage(self) -> float:
        """Scored episodes among the planned ones."""
        return len(self.rows) / len(self.plan)

    @property
    def knows_success(self) -> bool:
        """False where the environment cannot tell success from failure."""
        return any(row["success"] is not None for row in self.rows.values())

    @property
    def costs(self) -> Costs:
        """What was spent on the scored attempts."""
        rows = self.rows.values()
        turns, tokens, prompt_tokens = (sum(row[name] for row in rows) for name in ("turns", "tokens", "prompt_tokens"))
        env_seconds, policy_seconds = (
            math.fsum(row[name] for row in rows) for name in ("env_seconds", "policy_seconds")
        )
        return Costs(len(rows), turns, tokens, prompt_tokens, env_seconds, policy_seconds)

    def outcomes(self, metric: Metric = "success") -> dict[str, tuple[float, ...]]:
        """Return a metric of each attempt, by task.

        Args:
            metric: `success` has one value per planned attempt, 0 for one that was not scored. The others have one per
                scored attempt: nothing that could be filled in would be neutral (a reward of 0 may be a good one).

        Returns:
            In the order of the plan; a task without any value is left out.

        Raises:
            UsageError: The environment of this run knows no success.
        """
        if metric == "success" and not self.knows_success:
            raise UsageError(f"{self.env} knows no success: take another metric ({', '.join(METRICS[1:])})")
        values: dict[str, list[float]] = defaultdict(list)
        for planned in self.plan:
            row = self.rows.get(planned.key)
            if metric == "success":
                values[planned.task].append(float(bool(row and row["success"])))
            elif row is not None:
                values[planned.task].append(_value(row, metric))
        return {task: tuple(outcomes) for task, outcomes in values.items()}

    def means(self, metric: Metric = "success") -> dict[str, float]:
        """Return the mean of a metric over the attempts at each task, by task; see `outcomes`."""
        return {task: math.fsum(values) / len(values) for task, values in self.outcomes(metric).items()}

    def _check(self) -> None:
        """Make sure that everything which is read later is there."""
        if not self.plan:
            raise RunInvalid(f"{self.path} planned no episode: its plan.jsonl is missing or empty")
        if len({planned.key for planned in self.plan}) < len(self.plan):
            raise IntegrityError("plan.jsonl names an episode twice")
        if not self.rows:
            raise RunInvalid(f"{self.path} has no scored episode among {len(self.plan)} planned ones ({self.status})")
        for field in ("policy", "env", "split", "panel", "limits", "sampling"):
            self.lock[field]


def differences(ours: Evidence, theirs: Evidence) -> list[Difference]:
    """List what stands against comparing two runs, the worst first.

    Returns:
        Differences of kind `match` (the runs measured different things: refuse) and `warn` (the same thing under other
        circumstances: say so). Fields inside a table are named with a dot: `limits.max_turns`. That the policies
        differ is no difference: it is the question.
    """
    locks = compare_locks(ours.lock, theirs.lock)
    if ours.scripted or theirs.scripted:
        locks = [difference for difference in locks if table_of(difference.field) not in CONVERSATION]
    return sorted([*locks, *_of_runs(ours, theirs)], key=lambda difference: difference.kind != "match")


def compare_locks(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], rules: Mapping[str, Kind] = COMPARED
) -> list[Difference]:
    """List the fields in which two locks differ and a comparison is concerned, the ones that refuse it first.

    Args:
        ours: The contents of a lock.json.
        theirs: Of another.
        rules: What a difference in each field means; a field that is not listed is marked.
    """
    found = [
        difference._replace(kind=rules.get(table_of(difference.field), "warn"))
        for difference in lock_differences(_flat(ours), _flat(theirs))
    ]
    concerned = [difference for difference in found if difference.kind != "ignore"]
    return sorted(concerned, key=lambda difference: (difference.kind != "match", difference.field))


def table_of(field: str) -> str:
    """Return the field of the lock that a name with a dot belongs to."""
    return field.partition(".")[0]


def said(differences: Iterable[Difference]) -> str:
    """Write differences for a message: `limits.max_turns (20, 10); panel (3846f189, 91c2aa04)`."""
    return "; ".join(f"{d.field} ({_short(d.ours)}, {_short(d.theirs)})" for d in differences)


def _of_runs(ours: Evidence, theirs: Evidence) -> Iterator[Difference]:
    if set(ours.tasks) != set(theirs.tasks):
        yield Difference("tasks", "match", len(ours.tasks), len(theirs.tasks))
    for field in ("trials", "status", "coverage"):
        if getattr(ours, field) != getattr(theirs, field):
            yield Difference(field, "warn", getattr(ours, field), getattr(theirs, field))


def _flat(lock: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field, value in lock.items():
        flat |= {f"{field}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {field: value}
    return flat


def _short(value: Any) -> str:
    is_hash = isinstance(value, str) and re.fullmatch("[0-9a-f]{40,}", value)
    return value[:8] if is_hash else "absent" if value is None else str(value)


def _value(row: Row, metric: Metric) -> float:
    if metric == "invalid":
        return row["invalid"] / row["turns"] if row["turns"] else 0.0
    return float(row[metric])
