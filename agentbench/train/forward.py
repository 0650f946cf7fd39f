"""One forward pass over the rows of a batch: log-probabilities, entropies and values of the sampled tokens.

The language-model head is applied only where a token was sampled: with a vocabulary of 150,000 and long observations
that is most of the memory and a good part of the time. What is left of it has a bound: more logits than `LOGITS` are
made in chunks, and made again in the backward pass, for autograd would keep those of all chunks. Rows are padded at the
right, where a causal model needs no mask: what stands behind a token cannot reach it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from agentbench.train.batch import Batch, Forward
from agentbench.train.losses import entropy_from_logits

LOGITS = 2**25
"""Logits, of all sampled tokens and the whole vocabulary, that are held at a time: 128 MiB in float32."""

LOGIT_BYTES = 28
"""What one of them takes at the peak, with its copies, the entropy's terms and gradients; 20 to 26 were measured."""

PROBE = 64
"""Tokens whose activations are counted."""


class Reader:
    """Reads what a model says about sampled tokens.

    Args:
        model: A causal language model of transformers.
        head: Maps hidden states to values, or None.
        temperature: The sampler's: log-probabilities are of softmax(logits / T).
        autocast: Type to compute in (bfloat16 on a GPU), or None for the weights' own.
    """

    def __init__(
        self,
        model: Any,
        head: nn.Module | None = None,
        *,
        temperature: float = 1.0,
        autocast: torch.dtype | None = None,
    ) -> None:
        self.model = model
        self.head = head
        self.temperature = temperature or 1.0
        self.autocast = autocast

    def __call__(self, batch: Batch, *, entropy_grad: bool = False) -> Forward:
        """Run the model on rows.

        Args:
            batch: The rows; only ids and mask are read.
            entropy_grad: Let gradients flow through the entropies (an entropy bonus needs them).
        """
        device = self.model.device
        rows, positions = batch.mask_bt.nonzero(as_tuple=True)
        with self._precision(device), _recomputing(self.model):
            hidden_bth = self.model.base_model(
                input_ids=batch.token_ids_bt.to(device), use_cache=False
            ).last_hidden_state
            # The token at t was sampled from the state at t - 1.
            hidden_nh = hidden_bth[rows.to(device), positions.to(device) - 1]
            chosen_n = batch.token_ids_bt[rows, positions].to(device)
            logprobs_n, entropies_n = self._distributions(hidden_nh, chosen_n, entropy_grad=entropy_grad)
            values_n = None if self.head is None else self.head(hidden_nh)

        def scattered(x_n: Tensor) -> Tensor:
            x_bt = torch.zeros(batch.mask_bt.shape, dtype=x_n.dtype, device=x_n.device)
            return x_bt.index_put((rows.to(device), positions.to(device)), x_n).cpu()

        values_bt = None if values_n is None else scattered(values_n)
        return Forward(scattered(logprobs_n), scattered(entropies_n), values_bt, None)

    def _distributions(self, hidden_nh: Tensor, chosen_n: Tensor, *, entropy_grad: bool) -> tuple[Tensor, Tensor]:
        project = self.model.get_output_embeddings()

        def read(hidden_nh: Tensor, chosen_n: Tensor) -> tuple[Tensor, Tensor]:
            logits_nv = project(hidden_nh).float() / self.temperature
            logprobs_n = torch.log_softmax(logits_nv, -1).gather(-1, chosen_n[:, None])[:, 0]
            with nullcontext() if entropy_grad else torch.no_grad():
                return logprobs_n, entropy_from_logits(logits_nv)

        chunk = max(1, LOGITS // len(project.weight))
        if len(chosen_n) <= chunk:
            return read(hidden_nh, chosen_n)
        parts = [
            checkpoint(read, hidden, chosen, use_reentrant=False, preserve_rng_state=False)
            for hidden, chosen in zip(torch.split(hidden_nh, chunk), torch.split(chosen_n, chunk), strict=True)
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _precision(self, device: torch.device) -> AbstractContextManager[Any]:
        return torch.autocast(device.type, self.autocast) if self.autocast is not None else nullcontext()


def recompute_layers(model: Any) -> None:
    """Keep, from now on, only the activations between layers of what a `Reader` reads: less memory, more time."""
    new_name = getattr(model, "activation_checkpointing_enable", None)  # the old name warns where there is a new one
    (new_name or model.gradient_checkpointing_enable)({"use_reentrant": False})


def activation_bytes(model: Any, tokens: int) -> int:
    """Count what a forward pass over so many tokens keeps for the backward pass, without the output head's part.

    A short pass is run, and what autograd saves in it is added up: that grows linearly, for attention kernels keep
    nothing quadratic.
    """
    weights = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, int] = {}
    alive = []  # What is freed meanwhile could lend its address to another.

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            alive.append(tensor)
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.zeros(1, PROBE, dtype=torch.long, device=model.device)
    with (
        torch.enable_grad(),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        _recomputing(model),
    ):
        model.base_model(input_ids=ids, use_cache=False)
    return sum(kept.values()) * tokens // PROBE


def logit_bytes(model: Any, tokens: int) -> int:
    """Bound what the output head takes beside that where so many tokens, or fewer, were sampled."""
    return LOGIT_BYTES * min(LOGITS, tokens * len(model.get_output_embeddings().weight))


@contextmanager
def _recomputing(model: Any) -> Iterator[None]:
    """Let the layers that shall compute anew in the backward pass do so.

    Transformers asks `training` whether to, which switches dropout on as well; so this sets the flag of those layers
    alone, not of what they are made of, and only here: the sampler, which may share the model, must keep its cache.
    """
    layers = [layer for layer in model.modules() if getattr(layer, "gradient_checkpointing", False)]
    for layer in layers:
        layer.training = torch.is_grad_enabled()
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


def check_reader(model: Any) -> str | None:
    """Compare hidden states and head with the model's own logits; say what is wrong, or None.

    Some architectures scale or cap their logits behind the head; training them needs the model's own forward.
    """
    ids = torch.arange(1, 9, device=model.device)[None]
    with torch.no_grad():
        own = model(input_ids=ids).logits.float()
        read = model.get_output_embeddings()(model.base_model(input_ids=ids, use_cache=False).last_hidden_state).float()
    if not torch.allclose(own, read, atol=1e-3 * float(own.abs().max()) + 1e-6):
        return f"{type(model).__name__} changes its logits behind the output head; such models cannot be trained here"
    return None
