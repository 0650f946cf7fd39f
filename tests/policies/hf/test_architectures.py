"""Any causal language model plays; those that do not fit into the arena play slowly and exactly."""

from typing import Any

import pytest
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    GPT2Config,
    GPTNeoXConfig,
    MambaConfig,
    MistralConfig,
    PreTrainedConfig,
)

from agentbench.policies.checkpoint import Checkpoint
from agentbench.policies.init import byte_tokenizer
from agentbench.policies.slots import SlotBackend
from tests.policies.hf.conftest import Make
from tests.policies.hf.play import GREEDY, SAMPLED, contexts, generated, play_one, scored

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 259,
}
ENDS: dict[str, Any] = {"eos_token_id": 256, "pad_token_id": 257, "bos_token_id": None}
CASES = {
    "gpt2": (GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=256, vocab_size=259, **ENDS), True),
    "neox": (GPTNeoXConfig(**SHAPE, **ENDS), True),
    "mistral-that-never-slides": (MistralConfig(**SHAPE, **ENDS, num_key_value_heads=1, sliding_window=1 << 17), True),
    "mistral-that-slides": (MistralConfig(**SHAPE, **ENDS, num_key_value_heads=1, sliding_window=16), False),
    "gemma2": (Gemma2Config(**SHAPE, **ENDS, num_key_value_heads=1, head_dim=16, sliding_window=16), False),
    "bloom": (BloomConfig(hidden_size=32, n_layer=2, n_head=2, vocab_size=259, **ENDS), False),
    "mamba": (MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=259, **ENDS), False),
}


def untrained(config: PreTrainedConfig) -> Checkpoint:
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    return Checkpoint(model.eval(), byte_tokenizer())


@pytest.mark.parametrize("name", CASES)
def test_every_architecture_replies_as_generate_does(make: Make, name: str) -> None:
    config, in_arena = CASES[name]
    checkpoint = untrained(config)
    policy = make(checkpoint)
    assert isinstance(policy._engine.backend, SlotBackend) == in_arena
    for context, reply in contexts(play_one(policy, GREEDY)):
        assert list(reply.token_ids) == generated(checkpoint, context, GREEDY.max_tokens)
    for context, reply in contexts(play_one(policy, SAMPLED)):
        assert reply.logprobs == pytest.approx(scored(checkpoint, context, reply, 0.8)[0].tolist(), abs=1e-5)
