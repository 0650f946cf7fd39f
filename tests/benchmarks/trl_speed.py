"""A whole GRPO step beside TRL's: the same model, game, shapes and accounting, in two processes that take turns.

    python -m tests.benchmarks.trl_speed [--json FILE] [--games full ends] [--episodes 128] [--tokens 2 8] [--repeats 3]

Ours is `agentbench.train.loop.train` as a recipe runs it. TRL's is `GRPOTrainer(environment_factory=...)` in a virtual
environment of its own, made on the first run (`trl_side`). Process CPU seconds, the best repeat of each. `--tokens` is
the longest reply; 2 is what a move costs in the project's own small models, the word and the token that ends the reply.

The same: the 0.36M-parameter model with the same random weights, byte tokenizer, ChatML; `trl_walk`, twelve turns,
19 bytes of observation (28 tokens with the template) between two replies; groups of 8; T = 1, no
top-p, no top-k; float32, one thread; token ratios clipped at 0.2, mean of means, advantages divided by the deviation,
no KL, no entropy bonus; one epoch of 4 minibatches, AdamW, gradient norm 1, no gradient checkpointing; all episodes
decoded together. The learning rate is 1e-12, so that every repeat samples from the same policy.

Different, and who gains by it:

- TRL takes a turn for a tool call, which random weights do not write. A stub, cheaper than its parser, makes a call of
  every reply, and the prompt describes no tools: TRL gains.
- TRL has no way to end an episode, and learns from all groups; ours stops with the episode, and leaves groups without
  signal out of the update. In the game `full` neither happens; in `ends` both do, as in real tasks: we gain.
- TRL plays eleven of the twelve moves, for what the last reply calls is not executed: TRL gains a little.
- A reply that was cut off is closed by a stop token in our context and by none in TRL's: TRL gains a token a turn.
- We record log-probabilities and entropies while sampling; TRL reads them anew in a further forward over the batch. It
  counts in its step, and neither in its rollout nor in its update: TRL gains in these two.
- TRL prefills the whole conversation in every turn, and we what the turn added: that is the comparison. Its faster
  samplers are for GPUs (vLLM, continuous batching), and this says nothing about them.
- Micro-batches have 2048 tokens with us and `--trl-rows` episodes with TRL; between 4 and 32 it did not matter to TRL.

Peak memory of our process is the largest so far, over the shapes from the first to this one; `before` is what it was
before this shape: for the first one, what the imports cost.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from agentbench.core.env import Env, Step
from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm
from agentbench.policies.init import init_named
from agentbench.train.config import TrainConfig
from agentbench.train.loop import train
from tests.benchmarks.rival import Rival
from tests.benchmarks.trl_walk import GROUP, INSTRUCTIONS, TURNS, Walk

ROOT = Path(__file__).parents[2]
PINS = ("torch", "trl==1.13.0", "transformers==5.23.0", "requests")
"""Of torch, `constraints.txt` knows the version; `requests` is imported by TRL and not required by its wheel."""

TARGETS = {"rollout": 4.0, "step": 3.0}
MEMORY_TARGET = 0.6
SPEEDS = {"rollout": "generated_tokens_per_second", "update": "trajectory_tokens_per_second"}
STEP = "step_cpu_seconds"

Sample = dict[str, Any]


class WalkEnv(Env):
    """The game as an environment."""

    def __init__(self, split: str, ends: bool = False) -> None:
        self.split = split
        self.ends = ends

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.walk = Walk(self._seed, ends=self.ends)
        return self.walk.look(), {"valid": True}

    def step(self, action: str) -> Step:
        paid = self.walk.move(action)
        return Step(self.walk.look(), paid, self.walk.over, False, {"valid": True, "terms": {"paid": paid}})


ENTRY = EnvEntry(
    name="walk",
    title="Walk",
    version=0,
    entry_point="WalkEnv",
    summary="Measures speed.",
    instructions=INSTRUCTIONS,
    max_turns=TURNS,
    reward=RewardSpec((RewardTerm("paid"),)),
    variants={"full": Variant(), "ends": Variant({"ends": True})},
)


def running_trl(cache: Path, *arguments: object) -> Rival:
    """Start a TRL that takes a step when it is asked to."""
    index = os.environ.get("TORCH_INDEX")  # as the Makefile's
    more = ["--extra-index-url", index] if index else []
    pins = ["-c", str(ROOT / "constraints.txt"), *more, *PINS]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"}
    command = ["-m", "tests.benchmarks.trl_side", *arguments]
    return Rival(cache / "trl", [pins], command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)


class Meter:
    """Hears of our steps, and lets TRL take one behind each."""

    def __init__(self, trl: Rival, steps: int) -> None:
        self.trl = trl
        self.steps = steps
        self.ours: list[Sample] = []
        self.theirs: list[Sample] = []
        self.began = time.process_time()

    def hear(self, row: dict[str, Any]) -> None:
        """Keep a step; the last one is not kept, since the run's final validation is in it."""
        whole = time.process_time() - self.began
        if len(self.ours) == self.steps:
            return
        episodes = row["total/episodes"] / row["update"]
        seconds = {"rollout": row["time/rollout_cpu_seconds"], "update": row["time/update_cpu_seconds"], "step": whole}
        self.ours.append(
            {
                "seconds": seconds,
                "generated": row["episode/tokens"] * episodes,
                "trajectory": row["batch/tokens"],
                "replies": row["episode/turns"] * episodes,
                "signal": 1 - row["group/without_signal"],
            }
        )
        self.theirs.append(self.trl.ask("step"))
        self.began = time.process_time()


def recipe(model: Path, out: Path, *, game: str, episodes: int, tokens: int, updates: int) -> TrainConfig:
    return TrainConfig.parse(
        {
            "model": str(model),
            "env": f"{Path(__file__).resolve()}/{game}",
            "algorithm": {"name": "grpo", "group_size": GROUP},
            "rollout": {"episodes": episodes, "batch_size": episodes, "max_turns": TURNS, "max_tokens": tokens},
            "optim": {"lr": 1e-12, "minibatches": 4},
            "budget": {"updates": updates},
            "validation": {"every": 0, "episodes": 1},
            "device": "cpu",
            "threads": 1,
            "out": str(out),
        }
    )


def measure(arguments: argparse.Namespace, game: str, tokens: int) -> dict[str, Any]:
    """Run both sides on a game with replies of so many tokens."""
    episodes = arguments.episodes
    steps = arguments.repeats + 1  # the first one warms up
    with tempfile.TemporaryDirectory() as scratch:
        model = init_named("xs", Path(scratch) / "model")
        before = peak_gigabytes()
        trl = running_trl(arguments.cache.resolve(), model, episodes, tokens, arguments.trl_rows, game)
        meter = Meter(trl, steps)
        config = recipe(model, Path(scratch), game=game, episodes=episodes, tokens=tokens, updates=steps + 1)
        train(config, listen=meter.hear)
        trl.close()
    for sample in (*meter.ours, *meter.theirs) if game == "full" else ():
        assert sample["replies"] == episodes * TURNS, "an episode ended early"
        assert sample.get("signal", 1) == 1, "a group was left out"
    samples = {"ours": meter.ours[1:], "trl": meter.theirs[1:]}
    best = {side: summary(several) for side, several in samples.items()}
    ratio = {name: best["ours"][unit] / best["trl"][unit] for name, unit in SPEEDS.items()}
    ratio["step"] = best["trl"][STEP] / best["ours"][STEP]
    peak = {"before": before, "ours": peak_gigabytes(), "trl": meter.theirs[-1]["peak_gigabytes"]}
    return {"game": game, "tokens": tokens, "ratio": ratio, "best": best, "peak_gigabytes": peak, "samples": samples}


def summary(samples: list[Sample]) -> dict[str, float]:
    """Return the best of each number."""
    return {
        SPEEDS["rollout"]: max(sample["generated"] / sample["seconds"]["rollout"] for sample in samples),
        SPEEDS["update"]: max(sample["trajectory"] / sample["seconds"]["update"] for sample in samples),
        STEP: min(sample["seconds"]["step"] for sample in samples),
        "score_cpu_seconds": min(sample["seconds"].get("score", 0.0) for sample in samples),
    }


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def show(result: dict[str, Any]) -> None:
    """Print one shape."""
    ours, theirs = result["best"]["ours"], result["best"]["trl"]
    memory = result["peak_gigabytes"]
    print(
        f"{result['game'] + ', replies of ' + str(result['tokens']) + ' tokens':32}{'ours':>10}{'TRL':>10}{'ratio':>8}"
    )
    for name, unit in {**SPEEDS, "step": STEP}.items():
        ratio, target = result["ratio"][name], TARGETS.get(name)
        print(f"{unit:32}{ours[unit]:10.1f}{theirs[unit]:10.1f}{ratio:8.2f}{verdict(target, ratio, at_least=True)}")
    print(f"{'of it, reading log-probs again':32}{'':10}{theirs['score_cpu_seconds']:10.1f}")
    said = verdict(MEMORY_TARGET, memory["ours"], at_least=False)
    print(f"{'peak memory, GB':32}{memory['ours']:10.2f}{memory['trl']:10.2f}{'':8}{said}")
    print(f"{'of it, before this shape':32}{memory['before']:10.2f}\n", flush=True)


def verdict(target: float | None, value: float, *, at_least: bool) -> str:
    if target is None:
        return ""
    missed = "" if (value >= target if at_least else value <= target) else ", missed"
    return f"  (target {target:g}{missed})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cache", type=Path, default=ROOT / ".bench")
    parser.add_argument("--games", choices=["full", "ends"], nargs="+", default=["full", "ends"])
    parser.add_argument("--episodes", type=int, default=128, help="per step; a multiple of 32 and of 4 times the rows")
    parser.add_argument("--tokens", type=int, nargs="+", default=[2, 8], help="the longest reply, for each shape")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trl-rows", type=int, default=8, help="episodes in a micro-batch of TRL's")
    arguments = parser.parse_args()
    results = {}
    for game, tokens in itertools.product(arguments.games, arguments.tokens):
        results[f"{game}, replies of {tokens} tokens"] = measure(arguments, game, tokens)
        show(results[f"{game}, replies of {tokens} tokens"])
    if arguments.json:
        setting = {name: getattr(arguments, name) for name in ("episodes", "repeats", "trl_rows")}
        setting |= {"turns": TURNS, "group": GROUP, "model": "xs", "torch": torch.__version__, "pins": list(PINS)}
        arguments.json.write_text(json.dumps({"setting": setting, **results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
