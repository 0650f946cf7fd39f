"""An environment plays the same episodes in its container as in this process, also after its container was killed."""

from pathlib import Path
from typing import Any

import pytest

from agentbench.core.records import RunDirectory
from agentbench.core.registry import Resolved, environments, resolve
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import Progress, evaluate
from agentbench.sandbox import engine
from agentbench.sandbox.owner import owner

pytestmark = [pytest.mark.slow, pytest.mark.alone]

FAMILIES = ["sokoban", "textworld", "textworld/z8-simple-dense", "alfworld", "webshop", "webshop/browser"]
"""A variant of each class that plays; `make soak` takes every variant of these."""


@pytest.fixture(autouse=True)
def _engine() -> None:
    problem = engine.missing_engine()
    if problem:
        pytest.skip(problem)


def variants(name: str) -> list[Resolved]:
    """Return a variant and the others of its class, without those that play files of the user's: no image has these."""
    first = resolve(name)
    every = [resolve(f"{first.entry.name}/{variant}") for variant in environments()[first.entry.name].variants]
    return [each for each in every if each.entry_point == first.entry_point and "source" not in each.kwargs]


def play(out: Path, name: str, *, listen: Any = None, **more: Any) -> RunDirectory:
    values = {"env": name, "model": "random", "episodes": 3, "max_turns": 5, "jobs": 2, "seed": 7, **more}
    return RunDirectory.open(evaluate(EvalConfig.parse({**values, "out": str(out)}), listen=listen).run_dir)


def chains(run: RunDirectory) -> dict[str, str]:
    """Return the last hash of every episode's chain, by the episode's key."""
    return {key: row["hash"] for key, row in run.scored().items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_seeds_give_equal_hash_chains_in_a_container(name: str, tmp_path: Path, scale: float) -> None:
    for each in variants(name) if scale > 1 else [resolve(name)]:
        env = f"{each.entry.name}/{each.variant}"
        # Games of the genuine engine take long to make, and are made again in every container.
        models = {"oracle": None} if scale <= 1 and "z8" in name else {"random": 5, "oracle": None}
        for model, turns in models.items():
            here = play(tmp_path, env, model=model, max_turns=turns)
            there = play(tmp_path, env, model=model, max_turns=turns, sandbox="docker")
            assert chains(there) == chains(here), f"{model} on {env}"
            assert len(set(chains(here).values())) == len(here.plan()), f"{model} on {env}"
            if model == "oracle":
                assert there.state["summary"]["success"] == 1.0, env
        assert there.lock["sandbox"]["network"] == "none"
        assert "sandbox" not in here.lock


@pytest.mark.parametrize("name", ["sokoban", "textworld", "alfworld"])
def test_a_killed_container_costs_a_retry_and_no_result(name: str, tmp_path: Path) -> None:
    before = {each.id for each in engine.sandboxes()}
    killed: list[str] = []

    def kill(progress: Progress) -> None:
        if progress.scored == 1 and not killed:
            (mine,) = [each.id for each in engine.sandboxes() if each.owner == owner() and each.id not in before]
            engine.engine().kill(mine)
            killed.append(mine)

    run = play(tmp_path, name, episodes=6, sandbox="docker", listen=kill)
    assert killed
    lost = [row for row in run.rows() if not row["scored"]]
    assert lost and {row["failure"]["cause"] for row in lost} <= {"environment", "sandbox"}
    assert run.state["status"] == "complete"
    assert chains(run) == chains(play(tmp_path, name, episodes=6))
    assert killed[0] not in {each.id for each in engine.sandboxes()}
