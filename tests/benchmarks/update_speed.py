"""What an update costs beside a bare forward and backward pass over the same tokens.

    python -m tests.benchmarks.update_speed [--json FILE] [--size xs]

Both sides take the same rows in the same micro-batches on one thread, one optimiser step per minibatch. The bare one
computes the mean of the logits of all positions and nothing else: no sampling probabilities, ratios, values or logging.
Process CPU time, interleaved repeats, the fastest of each; one more row tells the peak memory of a whole training step.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agentbench.policies.checkpoint import load_checkpoint
from agentbench.policies.hf import HFPolicy
from agentbench.policies.init import init_named
from agentbench.train.algorithms import ALGORITHMS
from agentbench.train.batch import Batch
from agentbench.train.collect import collect, plan_groups
from agentbench.train.config import Optim, Regularise, TrainConfig
from agentbench.train.critic import ValueHead
from agentbench.train.update import Learner, micro_batches

EPISODES = 96
REPEATS = 5
TARGET = 0.8
MEMORY_TARGET = 0.6


def experience(size: str, folder: Path) -> tuple[Any, Batch, ValueHead]:
    """Play episodes of twelve turns, with observations of some twenty tokens and replies of four."""
    env = folder / "echo_env.py"
    env.write_text("from agentbench.testing import ECHO as ENTRY\n")
    checkpoint = load_checkpoint(init_named(size, folder / "model"), device="cpu", dtype="float32")
    config = TrainConfig.parse(
        {
            "model": str(folder / "model"),
            "env": str(env),
            "env_args": {"length": 12},
            "rollout": {"episodes": EPISODES, "max_turns": 12, "max_tokens": 4},
            "budget": {"updates": 1},
        }
    )
    policy = HFPolicy(checkpoint, batch_size=EPISODES)
    head = ValueHead(checkpoint.model.config.hidden_size)
    policy.set_value_head(head)
    setting = config.setting("train", temperature=1.0, seed=0)
    plan = plan_groups(setting.resolved, EPISODES, 1, "bench")
    batch = collect(plan, setting, policy, config.reward_spec(setting.resolved), 1.0, retries=0).batch
    policy.close()
    return checkpoint.model, batch, head


def bare(model: Any, batch: Batch, optim: Optim) -> None:
    """Forward and backward over every row, and nothing else."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    for chosen in torch.arange(batch.episodes).tensor_split(optim.minibatches):
        part = batch.rows(batch.of_episodes(chosen))
        optimizer.zero_grad()
        for index in micro_batches(part, optim.micro_tokens):
            model(input_ids=part.rows(index).token_ids_bt, use_cache=False).logits.mean().backward()
        optimizer.step()


def measure(size: str) -> dict[str, Any]:
    """Return CPU seconds of both sides, per algorithm, and their ratio."""
    torch.set_num_threads(1)
    optim = Optim(lr=1e-12, critic_lr=1e-12)
    with tempfile.TemporaryDirectory() as scratch:
        model, batch, head = experience(size, Path(scratch))
    learner = Learner(model, head, None, Regularise(), temperature=1.0)
    ways: dict[str, Callable[[], Any]] = {"bare forward and backward": lambda: bare(model, batch, optim)}
    for name in ("turn-ppo", "token-ppo"):
        algorithm = ALGORITHMS[name]()
        ways[name] = lambda algorithm=algorithm: learner.update(batch, algorithm, optim, rate=1.0, seed=0)  # type: ignore[misc]
    best: dict[str, float] = {}
    for _ in range(REPEATS):
        for name, way in ways.items():
            began = time.process_time()
            way()
            best[name] = min(best.get(name, float("inf")), time.process_time() - began)
    base = best["bare forward and backward"]
    return {
        "size": size,
        "tokens": int(batch.length_b.sum()),
        "cpu_seconds": best,
        "ratio": {name: base / seconds for name, seconds in best.items()},
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", default="xs")
    arguments = parser.parse_args()
    result = measure(arguments.size)
    print(f"{result['size']}, {result['tokens']} tokens in {EPISODES} episodes")
    for name, seconds in result["cpu_seconds"].items():
        rate = result["tokens"] / seconds
        print(f"{name:28} {seconds:7.2f} s {rate:9.0f} tokens/s {result['ratio'][name]:6.2f} of bare (target {TARGET})")
    print(f"peak memory {result['peak_gigabytes']:.2f} GB (target {MEMORY_TARGET})")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
