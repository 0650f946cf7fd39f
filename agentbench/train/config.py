"""The configuration of a training run: what a recipe may say.

Unknown keys, wrong types and impossible combinations are refused before anything is spent.

A recipe is a TOML file with these tables; `--set optim.lr=1e-4` changes one key. Absent keys have the defaults below.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from agentbench.core.errors import UsageError
from agentbench.core.registry import Resolved, resolve
from agentbench.core.rewards import POTENTIAL, SUCCESS, Gate, RewardSpec, RewardTerm
from agentbench.core.types import Sampling
from agentbench.rollout.context import ContextSpec
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.place import Kind, Place

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]
Amount = Annotated[float, Field(ge=0)]
Names = Annotated[tuple[str, ...], Field(strict=False)]  # TOML has lists, and neither tuples nor paths.
File = Annotated[Path, Field(strict=False)]


class Table(BaseModel):
    """A table of a recipe: its keys and no others, nothing converted but whole numbers, no number without end."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Rollout(Table):
    """How experience is collected."""

    episodes: Count = 128
    """Episodes per update; a multiple of the algorithm's group size."""
    temperature: Rate = 1.0
    max_tokens: Count = 64
    """Tokens that one reply may have."""
    max_turns: Count | None = None
    token_limit: Count | None = None
    context: str | None = None
    format: Literal["plain", "tagged"] = "plain"
    truncation: Literal["terminal", "bootstrap"] = "terminal"
    """Whether a cut-off is part of the task, or a curriculum's: then the critic says what would have followed."""
    batch_size: Count = 128
    """Rows that are decoded together."""
    retries: Whole = 1


class Optim(Table):
    """How weights are changed."""

    lr: Rate = 3e-4
    critic_lr: Rate = 9e-4
    warmup: Whole = 6
    """Updates over which the learning rate rises to its value."""
    final: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the learning rate that is left at the end of the budget; it falls linearly."""
    weight_decay: Amount = 0.0
    grad_norm: Rate = 1.0
    """The gradient is scaled down to this norm."""
    epochs: Count = 1
    minibatches: Count = 4
    micro_tokens: Count = 2048
    """Tokens that go through the model together, padding included. A row that is longer goes alone; where the ratio is
    of an episode, its rows stay together."""


MOST_OFF = 0.2
"""The relative error of the divergence from its target is cut here, so that one odd batch moves little."""


class Regularise(Table):
    """What is added to the loss or taken from the reward of what the policy sampled; demonstrations are left alone."""

    entropy_coef: Amount = 0.0
    kl_coef: Amount = 0.0
    """Of the divergence from the frozen reference; 0 keeps no reference."""
    kl_in: Literal["loss", "reward"] = "loss"
    kl_kind: Literal["k1", "k2", "k3"] | None = None
    """The estimator, see `losses.kl_penalty`; absent, the one that is right there: k3 in the loss, k1 in the reward."""
    kl_target: Rate | None = None
    """Where the coefficient is to steer the divergence to; None keeps it fixed."""
    kl_horizon: Rate = 10_000
    """Episodes over which an adaptive coefficient moves; in one update by `MOST_OFF` times episodes / kl_horizon."""

    @property
    def kind(self) -> Literal["k1", "k2", "k3"]:
        """The estimator in use."""
        return self.kl_kind or ("k3" if self.kl_in == "loss" else "k1")

    def choices(self) -> tuple[str, ...]:
        """Say how the policy is held near the reference; every report prints it."""
        if not self.kl_coef:
            return ()
        # A penalty in the reward is a constant to the optimiser: only of k1 nothing is lost by that.
        biased = " (biased: its gradient is not the KL's)" if self.kl_in == "reward" and self.kind != "k1" else ""
        return (f"KL: {self.kl_coef} x {self.kind} in the {self.kl_in}{biased}",)

    @model_validator(mode="after")
    def _teaches(self) -> Self:
        if self.kl_coef and self.kl_in == "loss" and self.kl_kind == "k1":
            raise ValueError(
                "k1 in the loss has a gradient of mean 0 and teaches nothing: take k3, or kl_in = 'reward'"
            )
        if self.kl_target is not None and not self.kl_coef:
            raise ValueError("kl_target steers kl_coef, and kl_coef = 0 stays 0: give it a value to start from")
        return self


class Budget(Table):
    """When to stop: at the first limit that is reached."""

    updates: Count | None = None
    episodes: Count | None = None
    tokens: Count | None = None
    """Sampled tokens."""
    cpu_seconds: Rate | None = None
    """CPU time of this process."""
    seconds: Rate | None = None
    """Wall time; on a GPU, its time."""


class Validation(Table):
    """How checkpoints are chosen: on the valid split, with the engine that collects."""

    every: Whole = 10
    """Updates between evaluations; 0 evaluates at the end only."""
    episodes: Count = 100
    temperature: Amount = 0.0


class Stage(Table):
    """A stage before the main one: supervised warm start or value pretraining."""

    updates: Count | None = None
    cpu_seconds: Rate | None = None
    episodes: Count = 128
    """Episodes per update."""
    lr: Rate = 2e-3
    final: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the learning rate that is left at the end of the stage."""
    minibatches: Count = 4
    epochs: Count = 1
    until_success: Annotated[float, Field(gt=0, le=1)] | None = None
    """Stop early at this success rate on the valid panel."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.updates is None and self.cpu_seconds is None:
            raise ValueError("a stage needs updates or cpu_seconds")
        return self


class ValueStage(Stage):
    """Value pretraining: the critic learns Monte-Carlo returns while the actor stands still."""

    value_clip: Rate | None = None
    """How far a value may move per update. None, for a critic that starts at zero has to get to the returns first."""


class Reward(Table):
    """A reward made of recorded terms."""

    terms: dict[str, float]
    """Weight of each raw term; `potential` is shaping, `success` is 1 for a solved task."""
    final: Names = ()
    """Terms of which only the last turn's value counts."""
    gates: dict[str, float] = Field(default_factory=dict)
    """Thresholds: unless the episode's sum of the term reaches it, the other terms are not paid (G-RA). `success` can
    be a gate with or without being paid, `potential` cannot."""


class TrainConfig(Table):
    """A recipe."""

    model: str
    """A checkpoint folder, or `init:NAME` for a small model with random weights."""
    words: Names = ()
    """What the tokenizer of an `init:` model writes as one token besides bytes; where two overlap, the earlier wins."""
    env: str
    env_args: dict[str, Any] = Field(default_factory=dict)
    algorithm: dict[str, Any] = Field(default_factory=lambda: {"name": "turn-ppo"})
    """`name`, and the fields of that algorithm."""
    reward: Literal["native", "sparse", "dense"] | Reward = "native"
    """`native` is the environment's; `sparse` pays 1 for success; `dense` adds potential-based shaping to native."""
    seed: Whole = 0
    rollout: Rollout = Field(default_factory=Rollout)
    optim: Optim = Field(default_factory=Optim)
    regularise: Regularise = Field(default_factory=Regularise)
    budget: Budget
    validation: Validation = Field(default_factory=Validation)
    warm_start: Stage | None = None
    """Supervised training on demonstrations, in the contexts of rollouts."""
    demonstrations: File | None = None
    """A run whose successful episodes are learned from, a person's for example; None: the oracle demonstrates."""
    value_pretraining: ValueStage | None = None
    """Fitting the critic to Monte-Carlo returns before the actor moves (VAPO, arXiv 2504.05118)."""
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    gradient_checkpointing: bool = False
    threads: Count | None = None
    """Threads of the mathematics on a CPU; a model of a million parameters is fastest on one."""
    sandbox: Kind = "none"
    """Where the environment's code runs: in this process, in a jail beside it, or in its container."""
    allow_unsandboxed: bool = False
    """With `sandbox = "process"`: make do with a plain process where bubblewrap is missing."""
    note: str = ""
    """Where the settings come from, and what could not be established."""
    out: File = Path("runs")

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Validate a recipe; the first mistake becomes one line that says what to change.

        Raises:
            UsageError: A key, a type or a combination is wrong.
        """
        try:
            config = cls.model_validate(values)
        except ValidationError as error:
            raise UsageError(f"recipe: {_explain(cls, error)}") from error
        config.check()
        return config

    def check(self) -> None:
        """Refuse combinations that cannot work, before anything is spent.

        Raises:
            UsageError: With what to change.
        """
        algorithm = self.make_algorithm()
        resolved = self.resolve_env()
        early = self.value_pretraining
        _, _, split = self.env.rpartition(".py")[2].partition(":")
        if split:
            raise UsageError(f"env = {self.env!r}: a recipe learns on train and chooses on valid, leave :{split} out")
        if self.words and not self.model.startswith("init:"):
            raise UsageError(f"words belong to a new model, and {self.model} has its tokenizer: set words = []")
        for key, episodes in (
            ("rollout.episodes", self.rollout.episodes),
            ("value_pretraining.episodes", early.episodes if early else 0),
        ):
            if episodes % algorithm.group_size:
                raise UsageError(f"{key} = {episodes} is no multiple of group_size = {algorithm.group_size}")
        if all(limit is None for limit in self.budget.model_dump().values()):
            raise UsageError("budget has no limit; set budget.updates, episodes, tokens, cpu_seconds or seconds")
        if self.demonstrations is not None and self.warm_start is None and not algorithm.demonstrates:
            raise UsageError(f"{algorithm.name} learns from its own episodes: demonstrations need a warm_start, or sft")
        self._check_critic(algorithm)
        self._check_regularise(algorithm)
        for split in ("train", "valid"):
            if split not in (resolved.entry.variants[resolved.variant].splits or resolved.entry.splits):
                raise UsageError(f"{resolved.id} has no {split} split: nothing to train or to choose checkpoints on")
        spec = self.reward_spec(resolved)
        if algorithm.shaping_gamma is None and any(term.name == POTENTIAL for term in spec.terms):
            raise UsageError(
                f"shaping by a potential discounts per turn, and {algorithm.name} with gamma = {algorithm.gamma} per"
                " token: set algorithm.gamma = 1, or take turn-ppo"
            )
        self.context(resolved)

    def _check_critic(self, algorithm: Any) -> None:
        if self.value_pretraining is not None and algorithm.critic == "none":
            raise UsageError(f"value_pretraining needs a critic, and {algorithm.name} has none")
        if self.rollout.truncation != "bootstrap":
            return
        if algorithm.critic == "none":
            raise UsageError(f"truncation = 'bootstrap' needs a critic, and {algorithm.name} has none")
        if getattr(algorithm, "value_at", "first") != "first":
            raise UsageError(
                "truncation = 'bootstrap' reads V where the next reply would begin, and value_at ="
                f" {algorithm.value_at!r} trains it elsewhere: take value_at = 'first'"
            )

    def _check_regularise(self, algorithm: Any) -> None:
        regularise = self.regularise
        for name, coef in (("entropy_coef", regularise.entropy_coef), ("kl_coef", regularise.kl_coef)):
            if coef and algorithm.demonstrates:
                raise UsageError(
                    f"regularise.{name} needs tokens that the policy sampled, and {algorithm.name} has none: leave it"
                    " out"
                )
        # An update multiplies the coefficient by 1 - MOST_OFF * episodes / kl_horizon at the least.
        least = MOST_OFF * self.rollout.episodes
        if regularise.kl_target is not None and regularise.kl_horizon <= least:
            raise UsageError(
                f"regularise.kl_horizon = {regularise.kl_horizon:g} lets one update of {self.rollout.episodes} episodes"
                f" take kl_coef to 0 or below: set it above {least:g}, a good deal above for a steady coefficient"
            )
        if regularise.kl_coef and regularise.kl_in == "reward" and getattr(algorithm, "scale", "none") == "std":
            raise UsageError(
                "kl_in = 'reward' with scale = 'std' ranks groups of equal reward by their KL alone, at full size: take"
                " kl_in = 'loss', or scale = 'none'"
            )

    def make_algorithm(self) -> Any:
        """Build the algorithm.

        Raises:
            UsageError: There is none of this name, or one of its fields is wrong.
        """
        from agentbench.train.algorithms import ALGORITHMS

        values = dict(self.algorithm)
        name = values.pop("name", "turn-ppo")
        if name not in ALGORITHMS:
            raise UsageError(f"there is no algorithm {name!r}; known: {', '.join(ALGORITHMS)}")
        cls = ALGORITHMS[name]
        shape: dict[str, Any] = {field.name: (field.type, field.default) for field in fields(cls)}
        table = create_model(name, __base__=Table, **shape)
        try:
            return cls(**dict(table.model_validate(values)))
        except ValidationError as error:
            raise UsageError(f"algorithm.{_explain(table, error)}") from error

    def resolve_env(self, split: str = "train") -> Resolved:
        """Find the environment, in one of its splits."""
        return resolve(self.env, split=split, **self.env_args)

    def context(self, resolved: Resolved) -> ContextSpec:
        """How conversations are built."""
        return ContextSpec(self.rollout.context or resolved.context, self.rollout.format)

    def place(self, split: str) -> Place:
        """Where the environment's code runs, in one of its splits."""
        return Place(self.resolve_env(split), self.sandbox, allow_unsandboxed=self.allow_unsandboxed)

    def setting(self, split: str, *, temperature: float, seed: int, place: Place | None = None) -> Setting:
        """What all episodes of an update or of a validation have in common."""
        resolved = self.resolve_env(split)
        return Setting(
            resolved,
            Limits(self.rollout.max_turns or resolved.max_turns, self.rollout.token_limit),
            Sampling(temperature, max_tokens=self.rollout.max_tokens),
            self.context(resolved),
            seed,
            bootstrap=self.rollout.truncation == "bootstrap",
            place=place,
        )

    def reward_spec(self, resolved: Resolved) -> RewardSpec:
        """What the trainer pays.

        Raises:
            UsageError: A term is unknown to the environment, or there is none.
        """
        native = resolved.reward
        if self.reward == "native":
            return native
        if self.reward == "sparse":
            return RewardSpec((RewardTerm(SUCCESS, when="final"),))
        if self.reward == "dense":
            return RewardSpec((*native.terms, RewardTerm(POTENTIAL)), native.gates)
        known = {term.name for term in native.terms} | {SUCCESS, POTENTIAL}
        if not self.reward.terms:
            raise UsageError(
                f"reward.terms is empty and nothing would be paid: weigh some of {', '.join(sorted(known))}"
            )
        for name in (*self.reward.terms, *self.reward.gates, *self.reward.final):
            if name not in known:
                raise UsageError(f"{resolved.id} has no reward term {name!r}; known: {', '.join(sorted(known))}")
        when: dict[str, Literal["turn", "final"]] = dict.fromkeys(self.reward.final, "final")
        terms = tuple(RewardTerm(name, weight, when.get(name, "turn")) for name, weight in self.reward.terms.items())
        return RewardSpec(terms, tuple(Gate(name, threshold) for name, threshold in self.reward.gates.items()))


_KIND = re.compile(r"literal\[|Reward$")
"""What pydantic calls the alternatives of a key, which are no keys."""


def _explain(table: type[BaseModel], error: ValidationError) -> str:
    """Say in one line what is wrong with a table, and what to change."""
    # Of a value that may be a word or a table, the mistake inside the table says more.
    first = max(error.errors(), key=lambda mistake: len(mistake["loc"]))
    key = ".".join(str(part) for part in first["loc"] if not _KIND.match(str(part)))
    if first["type"] == "missing":
        return f"{key} is missing; set it in a recipe, or with --set {key}=..."
    known = f"; known: {', '.join(_known(table, first['loc']))}" if first["type"] == "extra_forbidden" else ""
    return f"{key} = {first['input']!r}: {first['msg']}{known}"


def _known(table: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the table that a wrong key stands in."""
    for part in path[:-1]:
        field = table.model_fields.get(str(part))
        inner = [] if field is None else [field.annotation, *get_args(field.annotation)]
        table = next((kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)), table)
    return list(table.model_fields)
