"""Training leaves something to look at: a few episodes with the advantages that they were trained with, and errors."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from agentbench.core.records import Planned, RunDirectory, read_lines
from agentbench.core.types import Reply, Trajectory, Turn
from agentbench.metrics.catalogue import family
from agentbench.rollout.pool import Played
from agentbench.train.batch import Credit, make_batch
from agentbench.train.collect import Experience, credited
from agentbench.train.config import TrainConfig
from agentbench.train.loop import KEPT, train


def played(number: int, lengths: list[int], *, fresh: bool, success: bool) -> Played:
    """An episode whose turn k has so many sampled tokens; fresh, its second turn begins a new row."""
    turns = []
    for k, length in enumerate(lengths):
        ids, zeros = tuple(range(1, length + 1)), (0.0,) * length
        reply = Reply("x", (7, 7), ids, zeros, zeros, fresh_context=k == 0 or (fresh and k == 1))
        turns.append(Turn("", reply, "x", 0.0, {}, 0.0, True, {}, 0.0, 0.0, ""))
    planned = Planned(f"key {number}", f"task {number // 2}", number, 0)
    return Played(planned, Trajectory("e", "train", planned.task, number, turns=turns, success=success))


def test_each_token_gets_its_own_advantage() -> None:
    kept = [played(e, [2, 3, 1], fresh=e % 2 == 1, success=e < 3) for e in range(5)]
    batch = make_batch([p.trajectory for p in kept], [[0.0] * 3] * 5, [p.planned.task for p in kept])
    index = batch.tokens
    told_ej = torch.arange(index.mask_ej.numel(), dtype=torch.float32).reshape(index.mask_ej.shape)
    chosen = credited(Experience(batch, {}, kept), Credit(batch.scatter(told_ej)), limit=4)
    assert [p.planned.key for p in chosen] == ["key 3", "key 4", "key 0", "key 1"], "failed ones first, then others"
    for p in chosen:
        told = told_ej[int(p.planned.seed)].tolist()
        assert [turn.advantages for turn in p.trajectory.turns] == [tuple(told[:2]), tuple(told[2:5]), tuple(told[5:6])]
    assert kept[2].trajectory.turns[0].advantages is None, "what is not kept is not written on"


@pytest.mark.parametrize("solved", [0, 1, 5])
def test_whatever_came_out_there_is_something_to_keep(solved: int) -> None:
    kept = [played(e, [1], fresh=False, success=e < solved) for e in range(5)]
    batch = make_batch([p.trajectory for p in kept], [[0.0]] * 5, [p.planned.task for p in kept])
    chosen = credited(Experience(batch, {}, kept), Credit(torch.zeros_like(batch.mask_bt)), limit=4)
    assert len({p.planned.key for p in chosen}) == 4
    assert sum(bool(p.trajectory.success) for p in chosen) == max(min(solved, 2), 4 - (5 - solved))


@pytest.mark.parametrize("name", ["turn-ppo", "grpo"])
def test_a_run_keeps_episodes_and_says_how_sure_it_is(
    name: str, fake: Callable[[str], str], recipe: Callable[..., TrainConfig]
) -> None:
    config: dict[str, Any] = {"validation": {"every": 2, "episodes": 8}, "budget": {"updates": 4}}
    trained = train(
        recipe(env=fake("ECHO"), algorithm={"name": name}, warm_start={"updates": 1, "episodes": 16}, **config)
    )
    run = RunDirectory.open(trained.run_dir)
    rows = run.rows()
    assert len(rows) == 2 * KEPT, "at each validation; in the warm start the oracle plays, and nothing is kept"
    for row in rows:
        for turn in run.trajectory(row).turns:
            assert turn.advantages is not None and len(turn.advantages) == len(turn.reply.token_ids)
            assert (turn.reply.values is None) == (name == "grpo")
    *_, last = read_lines(run.path / "metrics.jsonl")
    assert last["policy/staleness"] == 0.0, "sampler and learner take turns"
    assert last["valid/episodes"] == 8
    assert last["episode/success_error"] >= 0.0 and math.isfinite(last["episode/reward_error"])
    places = family(last, "entropy/token")
    assert list(places)[:4] == [0, 1, 2, 4]
    assert min(places.values()) <= last["policy/entropy"] <= max(places.values())
