"""What training costs on a GPU: sampling, learning and memory at real sizes, then learning itself.

    make bench-gpu                                     # writes tests/benchmarks/results/gpu.json
    python -m tests.benchmarks.gpu --tiny --out FILE   # the same code at a size that a CPU checks in a minute

Models have the shapes of Qwen2.5-0.5B and 1.5B and random weights: nothing is downloaded, and speed does not depend on
what the weights know. Sampling and learning run in bfloat16 (the learner keeps float32 weights). Model FLOPs
utilisation is 6 x parameters x tokens / (seconds x peak), with the peak of dense bfloat16 from --peak-tflops. At the
end a model of ten million parameters learns Sokoban by the recipe `sokoban-tiny`, within a budget of wall time.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from agentbench.core.registry import resolve
from agentbench.core.seeding import derive
from agentbench.core.types import Message, Sampling
from agentbench.evaluate.config import read_toml
from agentbench.policies.hf import HFPolicy
from agentbench.policies.init import init_model
from agentbench.train.config import TrainConfig
from agentbench.train.loop import train

SHAPES: dict[str, dict[str, Any]] = {
    "qwen2.5-0.5b": {"hidden": 896, "layers": 24, "heads": 14, "kv_heads": 2, "intermediate": 4864},
    "qwen2.5-1.5b": {"hidden": 1536, "layers": 28, "heads": 12, "kv_heads": 2, "intermediate": 8960},
}
VOCABULARY = 151_936
TINY: dict[str, Any] = {"hidden": 32, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 64}
H200_TFLOPS = 989.0
"""Dense bfloat16, from NVIDIA's data sheet."""


def sampling(shape: dict[str, Any], *, device: str, tiny: bool) -> dict[str, Any]:
    """Hold the same conversations with recorded passes (CUDA graphs) and without; return sampled tokens per second."""
    rows, turns, tokens = (4, 2, 8) if tiny else (256, 5, 128)
    with tempfile.TemporaryDirectory() as scratch:
        path = init_model(
            f"{scratch}/model", architecture="qwen2", vocabulary=512 if tiny else VOCABULARY, dtype="bfloat16", **shape
        )
        policy = HFPolicy(path, device=device, dtype="bfloat16", batch_size=rows)
        recorder = getattr(policy._engine.backend, "recorder", None)
        result: dict[str, Any] = {"rows": rows, "turns": turns, "reply_tokens": tokens}
        for name, recorded in {"plain": False, "recorded": True}.items():
            if recorder is not None:
                recorder.faithful = recorded
            for warm in (False, True):  # first, recordings are made and the allocator's pools filled
                began = time.perf_counter()
                asyncio.run(_converse(policy, rows, turns if warm else 1, tokens))
            seconds = time.perf_counter() - began
            result[f"{name}_tokens_per_second"] = rows * turns * tokens / seconds
        result["recorded_over_plain"] = result["recorded_tokens_per_second"] / result["plain_tokens_per_second"]
        result["recordings_agree"] = recorder.faithful if recorder is not None else None
        policy.close()
    return result


async def _converse(policy: HFPolicy, rows: int, turns: int, tokens: int) -> None:
    """Hold `rows` conversations at once."""

    async def talk(row: int) -> None:
        session, messages = policy.start(), [Message("user", f"Conversation {row}. " + "What next? " * 20)]
        for turn in range(turns):
            reply = await session.reply(
                messages, Sampling(temperature=1.0, max_tokens=tokens), seed=derive("gpu", row, turn)
            )
            messages += [Message("assistant", reply.text), Message("user", "Go on. " * 10)]
        await session.close()

    await asyncio.gather(*(talk(row) for row in range(rows)))


def speed(shape: dict[str, Any], *, device: str, tiny: bool, peak: float) -> dict[str, float]:
    """Train a few updates; return tokens per second, memory and utilisation of the last one."""
    with tempfile.TemporaryDirectory() as scratch:
        path = init_model(
            f"{scratch}/model", architecture="qwen2", vocabulary=512 if tiny else VOCABULARY, dtype="bfloat16", **shape
        )
        config = TrainConfig.parse(
            {
                "model": str(path),
                "env": "sokoban",
                "device": device,
                "dtype": "bfloat16",
                "gradient_checkpointing": False,
                "algorithm": {"name": "turn-ppo"},
                "rollout": {
                    "episodes": 8 if tiny else 256,
                    "max_turns": 2 if tiny else 5,
                    "max_tokens": 8 if tiny else 128,
                    "batch_size": 8 if tiny else 256,
                },
                "optim": {"lr": 1e-6, "critic_lr": 1e-5, "micro_tokens": 2048 if tiny else 16384},
                "budget": {"updates": 3},
                "validation": {"every": 0, "episodes": 4},
                "out": scratch,
            }
        )
        rows: list[dict[str, Any]] = []
        train(config, listen=rows.append)
    last = rows[-1]
    parameters = _parameters(shape, 512 if tiny else VOCABULARY)
    trained = last["batch/tokens"] / last["time/update_seconds"]
    return {
        "parameters": parameters,
        "sampled_tokens_per_second": last["episode/tokens"] * config.rollout.episodes / last["time/rollout_seconds"],
        "trained_tokens_per_second": trained,
        "update_mfu": 6 * parameters * trained / (peak * 1e12),
        "rollout_seconds": last["time/rollout_seconds"],
        "update_seconds": last["time/update_seconds"],
        "step_seconds": last["time/seconds"],
        "logprob_mismatch": last["policy/logprob_mismatch"],
        "peak_gigabytes": torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0,
    }


def learning(*, device: str, tiny: bool, seconds: float) -> dict[str, Any]:
    """Learn Sokoban by the bundled recipe within a budget of wall time; return the curve of the valid panel."""
    recipe = Path(__file__).parents[2] / "agentbench" / "recipes" / "sokoban-tiny.toml"
    with tempfile.TemporaryDirectory() as scratch:
        values = {**read_toml(recipe), "device": device, "out": scratch, "model": "init:xs" if tiny else "init:m"}
        values["warm_start"]["updates"] = 80
        values["budget"] = {"seconds": seconds}
        if tiny:
            values["warm_start"] = {"updates": 2, "episodes": 16}
            values["validation"] = {"every": 0, "episodes": 4}
            values["rollout"] = {"episodes": 16, "max_tokens": 8, "max_turns": 2}
        rows: list[dict[str, Any]] = []
        trained = train(TrainConfig.parse(values), listen=rows.append)
    curve = [(row["stage"], row["update"], row["valid/success"]) for row in rows if "valid/success" in row]
    return {
        "best_valid_success": trained.valid_success,
        "curve": curve,
        "seconds": seconds,
        "updates": len(rows),
        "median_update_seconds": statistics.median(row["time/seconds"] for row in rows),
    }


def _parameters(shape: dict[str, Any], vocabulary: int) -> int:
    """Count the weights of a Qwen2 model with tied embeddings."""
    width, layers, inner = int(shape["hidden"]), int(shape["layers"]), int(shape["intermediate"])
    keys = width // int(shape["heads"]) * int(shape["kv_heads"])
    attention = 2 * width * width + 2 * width * keys + width + 2 * keys
    return vocabulary * width + layers * (attention + 3 * width * inner + 2 * width) + width


PARTS = ("sampling", "speed", "learning")


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=False)
    parser.add_argument("--tiny", action="store_true", help="a size that a CPU checks")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part, added to what --out holds; else all")
    parser.add_argument("--seconds", type=float, default=240.0, help="budget of the learning run")
    parser.add_argument("--peak-tflops", type=float, default=H200_TFLOPS)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not arguments.tiny:
        parser.exit(4, "there is no GPU here; --tiny checks the same code on a CPU\n")
    resolve("sokoban/tiny")
    began = time.time()
    kept = json.loads(arguments.out.read_text()) if arguments.only and arguments.out and arguments.out.exists() else {}
    result: dict[str, Any] = {
        **kept,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }

    def note(part: str, measured: dict[str, Any]) -> None:
        result[part] = {**result.get(part, {}), **measured}
        result["total_seconds"] = kept.get("total_seconds", 0.0) + time.time() - began
        print(part, json.dumps(measured, indent=2), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(result, indent=2) + "\n")

    parts = arguments.only or PARTS
    for name, shape in {"tiny": TINY}.items() if arguments.tiny else SHAPES.items():
        if "sampling" in parts:
            note("sampling", {name: sampling(shape, device=device, tiny=arguments.tiny)})
        if "speed" in parts:
            note("speed", {name: speed(shape, device=device, tiny=arguments.tiny, peak=arguments.peak_tflops)})
    if "learning" in parts:
        seconds = 5.0 if arguments.tiny else arguments.seconds
        note("learning", learning(device=device, tiny=arguments.tiny, seconds=seconds))


if __name__ == "__main__":
    main()
