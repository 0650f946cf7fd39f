"""Real checkpoints play whole evaluations, and how many play at once changes no result."""

from pathlib import Path

import pytest

from agentbench.core.records import RunDirectory
from agentbench.evaluate.config import EvalConfig
from agentbench.evaluate.evaluate import evaluate
from agentbench.testing import Architecture, tiny_model

ARCHITECTURES: tuple[Architecture, ...] = ("qwen2", "qwen3", "llama")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_greedy_checkpoint_gives_the_same_results_alone_and_in_company(
    architecture: Architecture, tmp_path: Path, scale: float
) -> None:
    model = tiny_model(tmp_path / architecture, architecture)
    hashes = []
    for jobs in (1, 32):
        config = EvalConfig.parse(
            {
                "model": str(model),
                "env": "sokoban",
                "episodes": max(10, int(100 * min(1.0, scale / 5))),
                "max_turns": 3,
                "max_tokens": 8,
                "jobs": jobs,
                "dtype": "float32",
                "out": tmp_path / "runs",
            }
        )
        evaluated = evaluate(config)
        assert evaluated.status == "complete"
        rows = RunDirectory.open(evaluated.run_dir).scored()
        hashes.append({key: (row["hash"], row["reward"], row["success"], row["tokens"]) for key, row in rows.items()})
    # Random weights make no ties: the two best logits are never within 1e-6 of each other here.
    assert hashes[0] == hashes[1]


def test_replies_are_recorded_token_by_token(tmp_path: Path) -> None:
    config = EvalConfig.parse(
        {
            "model": str(tiny_model(tmp_path / "model")),
            "env": "sokoban/tiny",
            "episodes": 3,
            "max_turns": 2,
            "max_tokens": 6,
            "temperature": 1.0,
            "out": tmp_path / "runs",
        }
    )
    run = RunDirectory.open(evaluate(config).run_dir)
    for row in run.rows():
        for turn in run.trajectory(row).turns:
            reply = turn.reply
            assert 1 <= len(reply.token_ids) <= 6
            assert len(reply.logprobs) == len(reply.entropies) == len(reply.token_ids)
            assert all(logprob <= 0 for logprob in reply.logprobs)
            assert all(entropy >= 0 for entropy in reply.entropies)
    for field in ("weights", "tokenizer", "chat_template", "dtype"):
        assert run.lock[field], f"lock.json says nothing about the {field}"
