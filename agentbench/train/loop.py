"""The training loop: collect, credit, update, log, checkpoint.

A run is a few *stages*, each the same loop with another teacher: a supervised warm start (the oracle plays, or a
recording), value pretraining (the actor stands still), and the algorithm itself. Sampler and learner share one model;
after an update the sampler prefills live contexts anew.

Everything random is derived from the root seed and the number of the update. A run that was killed goes on from its
last checkpoint and, on a CPU, logs the very numbers that it would have logged.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from agentbench.core.errors import Failure, Interrupted, RunInvalid
from agentbench.core.seeding import derive
from agentbench.policies.cache import trim_heap
from agentbench.train.batch import Batch
from agentbench.train.collect import Experience, collect, credited, plan_groups, play_all
from agentbench.train.config import TrainConfig
from agentbench.train.sft import require_room
from agentbench.train.stages import Stage
from agentbench.train.workshop import Row, Workshop

KEPT = 4
"""Training episodes that are recorded, advantages included, whenever the valid panel is played."""


class Trained(NamedTuple):
    """A run that ended."""

    run_dir: Path
    best: Path | None
    """The checkpoint that did best on the valid panel."""
    valid_success: float


Listener = Callable[[Row], None]


def train(config: TrainConfig, *, resume: Path | None = None, listen: Listener | None = None) -> Trained:
    """Train a policy by a recipe.

    Args:
        config: The recipe.
        resume: A run directory to go on with; its recipe must be equal.
        listen: Called with every row of metrics.

    Raises:
        AgentBenchError: With the exit code of its class; the last checkpoint stays on disk. Of Ctrl-C and SIGTERM it is
            `Interrupted`, and names the run.
    """
    with Workshop(config, resume) as shop:
        try:
            for number in range(shop.counters.stage, len(shop.stages)):
                _run_stage(shop, number, listen or _ignore)
        except (RunInvalid, Failure):
            shop.write_state("invalid")
            raise
        except KeyboardInterrupt:
            shop.write_state("cancelled")
            raise Interrupted(f"interrupted; go on with: agentbench train --resume {shop.run.path}") from None
        except BaseException:
            shop.write_state("cancelled")
            raise
        shop.write_state("complete")
        best = None if shop.counters.best is None else shop.folder / shop.counters.best
        return Trained(shop.run.path, best, shop.counters.best_success)


def _run_stage(shop: Workshop, number: int, listen: Listener) -> None:
    stage = shop.begin(number)
    counters = shop.counters
    while not (counters.stage_finished or stage.is_over(counters)):
        row, experience = _update(shop, stage)
        over = stage.is_over(counters)
        every = shop.config.validation.every
        if over or (every and counters.update % every == 0):
            row |= _validate(shop, number)
            over = over or (stage.until_success is not None and row["valid/success"] >= stage.until_success)
            counters.stage_finished = over
            if not stage.demonstrates and shop.learner.credit is not None:
                shop.keep(credited(experience, shop.learner.credit, KEPT))
        shop.log(row)
        listen(row)
        if over:  # Before `last`, from where a killed run goes on: what was not written by then is made again.
            shop.save(stage.name)
        if "valid/success" in row:
            shop.save("last")
        if over:
            return


def _update(shop: Workshop, stage: Stage) -> tuple[Row, Experience]:
    """Collect, learn, count; return what to log, and what was learned from."""
    config, counters = shop.config, shop.counters
    began = time.monotonic()
    name = (config.seed, stage.name, counters.update)
    setting = shop.setting("train", temperature=config.rollout.temperature, seed=derive("sampling", *name))
    size = stage.algorithm.group_size
    recordings = shop.recordings if stage.demonstrates else None
    plan = (
        plan_groups(setting.resolved, stage.episodes // size, size, *name)
        if recordings is None
        else recordings.plan(stage.episodes, *name)
    )
    spec = config.reward_spec(setting.resolved)
    with shop.policy.together(0 if stage.demonstrates else len(plan)):
        experience = collect(plan, setting, shop.player(stage), spec, stage.gamma, retries=config.rollout.retries)
    if stage.demonstrates:
        require_room((played.trajectory for played in experience.played), config.rollout.max_tokens)
    if recordings is not None:
        recordings.check(played.trajectory for played in experience.played)
    stale = _staleness(experience.batch, shop.policy.version) if not stage.demonstrates else {}
    shop.policy.free_caches()  # The update needs the room, and makes what is cached worthless.
    learned = shop.learner.update(
        experience.batch,
        stage.algorithm,
        stage.optim,
        rate=stage.rate(counters),
        seed=derive("update", *name),
        frozen_actor=stage.frozen_actor,
    )
    trim_heap()
    shop.publish()
    counters.update += 1
    counters.total_updates += 1
    counters.episodes += experience.batch.episodes
    counters.tokens += int(experience.batch.mask_bt.sum())
    shop.clock.tick(counters)
    totals = {f"total/{key}": getattr(counters, key) for key in ("episodes", "tokens", "cpu_seconds")}
    where = {"stage": stage.name, "update": counters.total_updates}
    # What the sampler recorded of all tokens comes before what the learner saw of those it trained on.
    row = {**where, **learned, **experience.metrics, **stale, **totals, "time/seconds": time.monotonic() - began}
    return row, experience


def _staleness(batch: Batch, version: int) -> Row:
    """Return how many weight updates old the turns of a batch are when they are learned from."""
    age_ek = (version - batch.version_ek) * batch.turn_mask_ek
    return {"policy/staleness": float(age_ek.sum() / batch.turn_mask_ek.sum())}


def _validate(shop: Workshop, number: int) -> dict[str, Any]:
    """Play the valid panel with the present weights, and keep the best checkpoint."""
    config, counters = shop.config, shop.counters
    setting = shop.setting("valid", temperature=config.validation.temperature, seed=derive("valid", config.seed))
    with shop.policy.together(len(shop.valid_plan)):
        played = play_all(shop.valid_plan, setting, shop.policy, retries=config.rollout.retries)
    success = sum(bool(trajectory.success) for trajectory in played) / len(played)
    reward = sum(trajectory.total_reward for trajectory in played) / len(played)
    if success > counters.best_success:
        counters.best_success, counters.best = success, "best"
        shop.save("best")
    shop.clock.tick(counters)
    return {"valid/success": success, "valid/reward": reward, "valid/episodes": len(played)}


def _ignore(row: Row) -> None:
    """Listen to nothing."""
