"""What a row of a leaderboard says, what it rests on, and how far it is to be trusted.

A measured row says nothing of its own: `row_of` computes every field from its bundle (evaluate/bundle.py), so that an
edited number is found by computing it again. A reported row cites somebody else's number and is never ranked.
"""

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agentbench.core.records import digest
from agentbench.evaluate.bundle import Bundle
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evidence import Evidence
from agentbench.metrics.stats import mean_interval, over_tasks, paired, pass_at_k, pass_hat_k, success_interval

Trust = Literal["reported", "recomputed", "replayed", "reproduced"]
Role = Literal["model", "floor", "ceiling"]
ROLES: dict[str, Role] = {"random": "floor", "nop": "floor", "echo": "floor", "oracle": "ceiling"}
"""What scripted policies are in a table: they mark what luck and a solver are worth, and are not ranked."""


class Step(NamedTuple):
    """One step of the trust ladder."""

    trust: Trust
    checked: str
    proves: str
    does_not: str


LADDER = (
    Step(
        "reported",
        "A paper or its repository says so; the source is cited.",
        "That it was claimed, where, and under which protocol as far as that is known.",
        "Anything else. Tasks, prompts, turn caps and attempts differ; such rows are never ranked with ours.",
    ),
    Step(
        "recomputed",
        "The numbers were computed again from the recorded episodes.",
        "That nobody edited a number, left out an episode or chose the tasks.",
        "That the episodes happened: a reward in them may never have been paid.",
    ),
    Step(
        "replayed",
        "Every recorded action was played again in the environment: rewards, ends and hash chains were equal.",
        "That these actions, on these tasks, earn exactly this score.",
        "That the model chose them: a person or a solver may have.",
    ),
    Step(
        "reproduced",
        "Somebody ran the command again with the same weights, and the paired test sees no difference.",
        "That the model itself scores this, as far as the second run is independent of the first.",
        "That it was not trained on these tasks.",
    ),
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Reproduction(_Strict):
    """A second run of a row."""

    bundle: str
    by: str
    date: str
    agreement: float
    """Share of the episodes that went the same way, action by action."""
    delta: float
    """Mean of its scores minus the row's, task by task."""
    p_value: float


class Measured(_Strict):
    """A row of ours. Every field follows from its bundles."""

    kind: Literal["measured"] = "measured"
    name: str
    """What the table calls it."""
    role: Role
    algorithm: str
    base: str
    parameters: int | None
    training: str
    by: str
    link: str
    env: str
    """`name/variant@version`."""
    split: str
    panel: str
    """The content hash of environment, split, arguments and tasks."""
    max_turns: int
    agent: str
    """How the policy is shown the episode and how its action is found: context mode and action format."""
    policy: str
    weights: str | None
    """A hash over the hashes of the weights' files."""
    sampling: str
    metric: Literal["success", "reward"]
    """What the score is: success where the environment knows it."""
    score: float
    """Strict: every planned episode counts, one that was not scored as a failure."""
    low: float | None
    high: float | None
    """The interval at 95 % over tasks; None where it is unbounded."""
    pass_at_1: float | None
    pass_hat_4: float | None
    """None with fewer than four trials per task."""
    reward: float
    tasks: int
    trials: int
    coverage: float
    turns: float
    """Mean per episode."""
    invalid: float
    """Share of the turns."""
    tokens: float
    """Mean number sampled per episode."""
    seconds_per_success: float | None
    """Wall time of the run per solved episode, on `hardware`; None where it was interrupted or nothing was solved."""
    hardware: str
    date: str
    agentbench: str
    commit: str
    """With `+` if the checkout held changes."""
    command: str
    trust: Trust
    reproductions: tuple[Reproduction, ...] = ()
    bundle: str
    """The sha256 of its file."""

    @property
    def id(self) -> str:
        """What to call the row on the command line."""
        return self.bundle[:8]


class Source(_Strict):
    """Where a reported number stands."""

    title: str
    link: str
    place: str
    """Table, figure or section."""


class Reported(_Strict):
    """A number of somebody else's. It is cited, not checked, and never ranked."""

    kind: Literal["reported"] = "reported"
    name: str
    algorithm: str
    env: str
    """The environment as they call it."""
    metric: str
    score: float | None
    """None where training is said to have collapsed."""
    unit: str
    protocol: str
    """Under which conditions, as far as that is known."""
    caveat: str
    source: Source


Row = Annotated[Measured | Reported, Field(discriminator="kind")]
ROW: TypeAdapter[Measured | Reported] = TypeAdapter(Row)
"""Reads one line of rows.jsonl."""


def row_of(bundle: Bundle, sha256: str, reproductions: Iterable[tuple[str, Bundle]] = ()) -> Measured:
    """Compute a row from its bundles."""
    head, evidence, lock = bundle.head, bundle.evidence, bundle.head.lock
    repeated = tuple(_reproduction(bundle, again, second) for again, second in reproductions)
    trust: Trust = "reproduced" if repeated else "replayed" if head.deterministic else "recomputed"
    return Measured(
        **head.declared.model_dump(),
        role=ROLES.get(evidence.name, "model") if evidence.scripted else "model",
        env=lock["env"],
        split=lock["split"],
        panel=lock["panel"],
        max_turns=lock["limits"]["max_turns"],
        agent=f"{lock['context']['mode']} context, {lock['context']['format']} actions",
        policy=lock["policy"],
        weights=digest(lock["weights"]) if "weights" in lock else None,
        sampling=_sampling(evidence),
        **_numbers(evidence, head.wall_seconds),
        hardware=" ".join(filter(None, (lock.get("device"), lock["hardware"]["machine"], lock["hardware"]["system"]))),
        date=head.date,
        agentbench=lock["agentbench"],
        commit=f"{(lock['git_commit'] or 'unknown')[:12]}{'+' * bool(lock['git_dirty'])}",
        command=EvalConfig.parse(head.config).command,
        trust=trust,
        reproductions=repeated,
        bundle=sha256,
    )


def _numbers(evidence: Evidence, wall_seconds: float | None) -> dict[str, Any]:
    """Compute what a run scored and cost, rounded so that every machine writes the same."""
    metric: Literal["success", "reward"] = "success" if evidence.knows_success else "reward"
    means, costs = list(evidence.means(metric).values()), evidence.costs
    estimate = success_interval(means, trials=evidence.trials) if metric == "success" else mean_interval(means)
    counts = [(len(values), int(sum(values))) for values in evidence.outcomes(metric).values()]
    at_1, hat_4 = (
        over_tasks(chance, counts, k) if metric == "success" else None
        for chance, k in ((pass_at_k, 1), (pass_hat_k, 4))
    )
    solved = sum(bool(row["success"]) for row in evidence.rows.values())
    rewards = list(evidence.means("reward").values())
    return {
        "metric": metric,
        "score": rounded(estimate.mean),
        "low": rounded(estimate.low),
        "high": rounded(estimate.high),
        "pass_at_1": at_1 and rounded(at_1.mean),
        "pass_hat_4": hat_4 and rounded(hat_4.mean),
        "reward": rounded(math.fsum(rewards) / len(rewards)),
        "tasks": len(evidence.tasks),
        "trials": evidence.trials,
        "coverage": rounded(evidence.coverage),
        "turns": rounded(costs.turns / costs.episodes),
        "invalid": rounded(sum(row["invalid"] for row in evidence.rows.values()) / max(1, costs.turns)),
        "tokens": rounded(costs.tokens / costs.episodes),
        "seconds_per_success": rounded(wall_seconds / solved) if wall_seconds and solved else None,
    }


def rounded(value: float) -> float | None:
    """Return a number as rows keep it: six digits, None for what is unbounded."""
    return round(value, 6) if math.isfinite(value) else None


def _sampling(evidence: Evidence) -> str:
    """Write how replies were drawn, in as few words as are true."""
    if evidence.scripted:
        return "scripted"
    sampling = evidence.lock["sampling"]
    drawn = "greedy" if sampling["temperature"] == 0 else f"T = {sampling['temperature']:g}"
    cut = [f"{name} = {sampling[name]:g}" for name, off in (("top_p", 1.0), ("top_k", 0)) if sampling[name] != off]
    return ", ".join([drawn, *cut, f"≤ {sampling['max_tokens']} tokens"])


def _reproduction(first: Bundle, sha256: str, second: Bundle) -> Reproduction:
    delta, p_value, share = agreement(first, second)
    declared = second.head.declared
    return Reproduction(
        bundle=sha256,
        by=declared.by,
        date=second.head.date,
        agreement=round(share, 6),
        delta=round(delta, 6),
        p_value=round(p_value, 6),
    )


class Agreement(NamedTuple):
    """How alike two runs of one panel are."""

    delta: float
    """Mean of the second's scores minus the first's, task by task."""
    p_value: float
    """Of the paired sign-flip test."""
    share: float
    """Of the episodes that went the same way, action by action."""


def agreement(first: Bundle, second: Bundle) -> Agreement:
    """Hold a second run of a panel against the first."""
    metric: Literal["success", "reward"] = "success" if first.evidence.knows_success else "reward"
    ours, theirs = first.evidence.means(metric), second.evidence.means(metric)
    shared = [task for task in ours if task in theirs]
    result = paired([ours[task] for task in shared], [theirs[task] for task in shared])
    hashes = {episode.planned.key: episode.hash for episode in first.episodes}
    same = sum(hashes.get(episode.planned.key) == episode.hash for episode in second.episodes)
    return Agreement(result.delta, result.p_value, same / len(second.episodes))
