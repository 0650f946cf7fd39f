"""Generated tokens per CPU second over growing conversations: ours, transformers' `generate`, and a bare forward.

    python tests/benchmarks/rollout_speed.py [--sessions 64] [--turns 12] [--tokens 8] [--repeats 3] [--out FILE]

All three play the same turns with a 0.36M-parameter model, sampled at T = 1, one torch thread, interleaved, in process
CPU time (which other loads on the machine disturb less than wall time):

- `engine`: sessions of `HFPolicy`, from messages to `Reply`, log-probabilities and entropies recorded;
- `refill`: the same with a quarter of the rows, so that rows that end are replaced by waiting ones;
- `generate`: the chat template and `model.generate` on the whole conversation, every turn;
- `forward`: the model's forward with a `DynamicCache` on the same shapes: no tokeniser, no sampling, no scheduler.

The best repeat of each counts. The result is one JSON object on stdout.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from transformers import DynamicCache

from agentbench.core.types import Message, Sampling
from agentbench.policies.checkpoint import Checkpoint, load_checkpoint
from agentbench.policies.hf import HFPolicy
from agentbench.policies.init import init_model

SYSTEM = "Push every box onto a target. Answer with one of up, down, left, right. # wall, $ box, . target, @ you."
GRID = "######\n#..  #\n#@$  #\n# $  #\n#    #"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = load_checkpoint(init_model(folder, hidden=96, layers=3, heads=3, intermediate=256))
    runs: dict[str, Callable[[], int]] = {
        "engine": lambda: play(checkpoint, args, batch_size=args.sessions),
        "refill": lambda: play(checkpoint, args, batch_size=max(1, args.sessions // 4)),
        "generate": lambda: generate(checkpoint, args),
        "forward": lambda: forward(checkpoint, args),
    }
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(args.repeats):
        for name, run in runs.items():
            start = time.process_time()
            tokens = run()
            speeds[name].append(tokens / (time.process_time() - start))
    result = summary(speeds, {name: getattr(args, name) for name in ("sessions", "turns", "tokens", "repeats")})
    print(json.dumps(result))
    if args.out:
        args.out.write_text(json.dumps(result, indent=2) + "\n")


def summary(speeds: dict[str, list[float]], shape: dict[str, int]) -> dict[str, Any]:
    best = {name: max(values) for name, values in speeds.items()}
    return {
        "benchmark": "rollout_speed",
        "unit": "generated tokens per CPU second",
        "shape": shape,
        "speeds": {name: [round(value, 1) for value in values] for name, values in speeds.items()},
        "engine_over_generate": round(best["engine"] / best["generate"], 2),
        "engine_over_forward": round(best["engine"] / best["forward"], 3),
        "refill_over_generate": round(best["refill"] / best["generate"], 2),
        "refill_over_forward": round(best["refill"] / best["forward"], 3),
        "torch": torch.__version__,
    }


def play(checkpoint: Checkpoint, args: argparse.Namespace, batch_size: int) -> int:
    """Play all sessions through the policy; return the tokens that were sampled."""
    policy = HFPolicy(checkpoint, batch_size=batch_size)

    async def one(index: int) -> int:
        session, messages, sampled = policy.start(), opening(), 0
        for turn in range(args.turns):
            sampling = Sampling(temperature=1.0, max_tokens=args.tokens)
            reply = await session.reply(messages, sampling, seed=1000 * index + turn)
            messages += [Message("assistant", reply.text), Message("user", GRID)]
            sampled += len(reply.token_ids)
        await session.close()
        return sampled

    async def every() -> int:
        return sum(await asyncio.gather(*(one(index) for index in range(args.sessions))))

    tokens = asyncio.run(every())
    policy.close()
    return tokens


def generate(checkpoint: Checkpoint, args: argparse.Namespace) -> int:
    """Play them with `generate`, the whole conversation anew each turn."""
    tokenizer, model = checkpoint.tokenizer, cast(Any, checkpoint.model)
    chats = [[{"role": m.role, "content": m.content} for m in opening()] for _ in range(args.sessions)]
    sampled = 0
    for _ in range(args.turns):
        texts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        ids = model.generate(**inputs, do_sample=True, max_new_tokens=args.tokens, top_k=0)
        for chat, new in zip(chats, ids[:, inputs["input_ids"].shape[1] :], strict=True):
            sampled += int((new != tokenizer.pad_token_id).sum())
            text = tokenizer.decode(new, skip_special_tokens=True)
            chat += [{"role": "assistant", "content": text}, {"role": "user", "content": GRID}]
    return sampled


@torch.inference_mode()
def forward(checkpoint: Checkpoint, args: argparse.Namespace) -> int:
    """Run the same shapes through the bare model."""
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    first = tokenizer.apply_chat_template([{"role": m.role, "content": m.content} for m in opening()], tokenize=False)
    prompt = len(tokenizer(first)["input_ids"])
    added = len(tokenizer(f"<|im_end|>\n<|im_start|>user\n{GRID}<|im_end|>\n<|im_start|>assistant\n")["input_ids"])
    cache = DynamicCache(config=model.config)
    for turn in range(args.turns):
        # The last token of a reply has no keys yet: it is fed together with what the next turn adds.
        widths = [prompt if turn == 0 else added + 1, *[1] * (args.tokens - 1)]
        for width in widths:
            ids = torch.zeros(args.sessions, width, dtype=torch.long)
            model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return int(args.sessions * args.turns * args.tokens)


def opening() -> list[Message]:
    return [Message("system", SYSTEM), Message("user", GRID)]


if __name__ == "__main__":
    main()
