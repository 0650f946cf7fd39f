"""The stages of a run: a supervised warm start, value pretraining, and the algorithm itself, as one kind of thing."""

import time
from dataclasses import dataclass, replace
from typing import Any

from agentbench.train.algorithms import SFT
from agentbench.train.batch import Algorithm
from agentbench.train.checkpoint import Counters
from agentbench.train.config import Budget, Optim, TrainConfig
from agentbench.train.config import Stage as StageConfig


@dataclass(frozen=True)
class Stage:
    """What distinguishes one part of a run from another."""

    name: str
    algorithm: Algorithm
    optim: Optim
    episodes: int
    """Per update."""
    budget: Budget
    demonstrates: bool = False
    """A teacher plays."""
    frozen_actor: bool = False
    until_success: float | None = None

    @property
    def gamma(self) -> float:
        """The discount that potential-based shaping uses."""
        return 1.0 if self.algorithm.shaping_gamma is None else self.algorithm.shaping_gamma

    def is_over(self, counters: Counters) -> bool:
        """Tell whether a limit of the stage's budget is reached."""
        spent = {name: getattr(counters, name) - counters.stage_start.get(name, 0.0) for name in _SPENT}
        limits = {**self.budget.model_dump(), "total_updates": self.budget.updates}
        return any(limits[name] is not None and spent[name] >= limits[name] for name in _SPENT)

    def rate(self, counters: Counters) -> float:
        """Return the share of the learning rate at this update: rising over the warm-up, falling over the budget."""
        rising = min(1.0, (counters.update + 1) / (self.optim.warmup + 1))
        return rising * (self.optim.final + (1.0 - self.optim.final) * self._left(counters))

    def _left(self, counters: Counters) -> float:
        limits = {**self.budget.model_dump(), "total_updates": self.budget.updates}
        used = [
            (getattr(counters, name) - counters.stage_start.get(name, 0.0)) / limits[name]
            for name in _SPENT
            if limits[name] is not None
        ]
        return max(0.0, 1.0 - float(max(used)))


_SPENT = ("total_updates", "episodes", "tokens", "cpu_seconds", "seconds")


def stages_of(config: TrainConfig) -> list[Stage]:
    """Return the stages that a recipe asks for, in order."""
    algorithm = config.make_algorithm()
    main = Stage(
        algorithm.name,
        algorithm,
        config.optim,
        config.rollout.episodes,
        config.budget,
        demonstrates=algorithm.demonstrates,
    )
    stages = [main]
    if config.value_pretraining is not None:
        # Monte-Carlo returns: lambda = 1 for the critic's targets.
        monte_carlo = replace(algorithm, lam_critic=1.0, value_clip=config.value_pretraining.value_clip)
        stages.insert(0, _early("value-pretraining", monte_carlo, config, config.value_pretraining, frozen_actor=True))
    if config.warm_start is not None:
        stages.insert(0, _early("warm-start", SFT(), config, config.warm_start, demonstrates=True))
    return stages


def _early(name: str, algorithm: Algorithm, config: TrainConfig, stage: StageConfig, **kind: Any) -> Stage:
    optim = config.optim.model_copy(
        update={
            "lr": stage.lr,
            "critic_lr": stage.lr,
            "final": stage.final,
            "minibatches": stage.minibatches,
            "epochs": stage.epochs,
            "warmup": 0,
        }
    )
    budget = Budget(updates=stage.updates, cpu_seconds=stage.cpu_seconds)
    return Stage(name, algorithm, optim, stage.episodes, budget, until_success=stage.until_success, **kind)


class Clock:
    """Adds the time since the last look to the counters; a resumed run does not start from zero."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.monotonic()

    def tick(self, counters: Counters) -> None:
        """Bring the counters up to now."""
        cpu, wall = time.process_time(), time.monotonic()
        counters.cpu_seconds += cpu - self._cpu
        counters.seconds += wall - self._wall
        self._cpu, self._wall = cpu, wall
