"""Small models from scratch: an ordinary transformers folder, made in about a second, that learns on a laptop.

The tokenizer knows 256 bytes, three special tokens and, where asked for, a few words; a grid symbol keeps its place in
the row, and nothing has to be trained or downloaded. The chat template is ChatML, with the `{% generation %}` marks
that supervised training asks for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentbench.core.errors import UsageError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

Architecture = Literal["qwen2", "qwen3", "llama"]

WORDS = ("up", "down", "left", "right", " || ", "system", "user", "assistant")
"""Words that the named sizes write as one token: a move then costs two tokens, itself and the end of the reply."""

SIZES: dict[str, dict[str, Any]] = {
    "xs": {"hidden": 96, "layers": 3, "heads": 3, "intermediate": 256},
    "s": {"hidden": 192, "layers": 4, "heads": 6, "intermediate": 512},
    "m": {"hidden": 320, "layers": 7, "heads": 10, "intermediate": 1024},
}
"""Shapes with a name: 0.36, 1.8 and 9.8 million parameters."""

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{{ '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The chat template of models made here; the assistant's closing token is part of what it generates."""


def init_model(
    path: str | Path,
    *,
    architecture: Architecture = "qwen3",
    hidden: int = 96,
    layers: int = 3,
    heads: int = 3,
    intermediate: int = 256,
    kv_heads: int | None = None,
    words: Sequence[str] = (),
    vocabulary: int | None = None,
    seed: int = 0,
    context: int = 4096,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
) -> Path:
    """Write a checkpoint folder with random weights, loadable by `AutoModelForCausalLM` and `AutoTokenizer`.

    The global random state is left as it was; the weights depend on `seed` and on the shape only.

    Args:
        path: The folder to write.
        architecture: The model class.
        hidden: Width of the residual stream; a multiple of `2 * heads`.
        layers: Decoder blocks.
        heads: Attention heads.
        intermediate: Width of the feed-forward layers.
        kv_heads: Key-value heads; as many as heads where None.
        words: What the tokenizer writes as one token, besides single bytes.
        vocabulary: Rows of the embedding, where it is to be larger than the tokenizer (to measure speed).
        seed: Decides the weights.
        context: Positions that the model accepts.
        dtype: Type of the stored weights.

    Returns:
        The folder.

    Example:
        >>> init_model("runs/tiny", hidden=32, layers=2, heads=2, intermediate=64)  # doctest: +SKIP
        PosixPath('runs/tiny')
    """
    import torch
    from transformers import AutoModelForCausalLM

    from agentbench.policies.checkpoint import quietly

    path = Path(path)
    tokenizer = byte_tokenizer(words)
    config = _config(architecture)(
        vocab_size=vocabulary or len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads or heads,
        head_dim=hidden // heads,
        intermediate_size=intermediate,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    _fill(model, torch.Generator().manual_seed(seed), hidden**-0.5)
    with quietly():
        model.to(getattr(torch, dtype)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def init_named(name: str, path: str | Path, *, words: Sequence[str] = (), seed: int = 0) -> Path:
    """Write a Qwen3-architecture checkpoint folder of one of the `SIZES`.

    Args:
        name: The size.
        path: The folder to write.
        words: What the tokenizer writes as one token, besides `WORDS`, over which they have precedence.
        seed: Decides the weights.

    Raises:
        UsageError: There is no size of this name.
    """
    if name not in SIZES:
        raise UsageError(f"there is no model size {name!r}; known: {', '.join(SIZES)}")
    return init_model(path, words=(*words, *WORDS), seed=seed, **SIZES[name])


def byte_tokenizer(words: Sequence[str] = ()) -> "PreTrainedTokenizerFast":
    """Make the tokenizer: 256 bytes, `<|im_start|>`, `<|im_end|>` (ends a reply) and `<|endoftext|>` (padding).

    Args:
        words: Become tokens of their own, merged letter by letter from the left; their beginnings do as well.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = list(dict.fromkeys(merge for word in words for merge in _merges(word)))
    vocabulary |= {left + right: len(vocabulary) + index for index, (left, right) in enumerate(merges)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=CHATML,
        clean_up_tokenization_spaces=False,
    )


def _merges(word: str) -> list[tuple[str, str]]:
    """Return the merges that build a word: u + p, or d + o, do + w, dow + n."""
    from tokenizers import pre_tokenizers

    symbols = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(word)[0][0]
    return [(symbols[:end], symbols[end]) for end in range(1, len(symbols))]


def _config(architecture: Architecture) -> Any:
    from transformers import LlamaConfig, Qwen2Config, Qwen3Config

    return {"qwen2": Qwen2Config, "qwen3": Qwen3Config, "llama": LlamaConfig}[architecture]


def _fill(model: "torch.nn.Module", generator: "torch.Generator", scale: float) -> None:
    """Draw matrices from a normal distribution; set gains to one and biases to zero.

    The usual scale of 0.02 belongs to widths of thousands: with it a width of 96 learns three times more slowly here.
    """
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, scale, generator=generator)
            else:
                weight.fill_(0.0 if name.endswith("bias") else 1.0)
