"""Which backend a model may use: what it computes decides, not what it is called."""

import sys
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from agentbench.policies.cache import LayerShape
from agentbench.policies.forward import TOLERANCE, Backend, Feed, Lane, SoloBackend
from agentbench.policies.slots import STEP, SlotBackend


def choose_backend(model: PreTrainedModel, *, context_limit: int, memory_limit: int) -> Backend:
    """Return the fastest backend that gives the logits of the model's plain forward."""
    with torch.inference_mode():
        shapes = _layer_shapes(model, context_limit)
        if shapes is not None and _agrees(model, SlotBackend(model, shapes, sys.maxsize)):
            return SlotBackend(model, shapes, memory_limit)
        return SoloBackend(model, cached=_agrees(model, SoloBackend(model, cached=True)))


def _layer_shapes(model: PreTrainedModel, context_limit: int) -> list[LayerShape] | None:
    """Return what each layer keeps of a position, or None if that is not keys and values of every position."""
    try:
        layers = DynamicCache(config=model.config.get_text_config(decoder=True)).layers
        cache = DynamicCache(config=model.config.get_text_config(decoder=True))
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device), past_key_values=cache, use_cache=True)
        plain = all(type(layer).__name__ == "DynamicLayer" or _never_slides(layer, context_limit) for layer in layers)
        if not plain or not cache.layers or _rotation_varies(model):
            return None
        return [_shape(layer) for layer in cache.layers]
    except Exception:  # whatever a foreign architecture raises here, it is not one for the arena
        return None


def _never_slides(layer: Any, context_limit: int) -> bool:
    return type(layer).__name__ == "DynamicSlidingWindowLayer" and layer.sliding_window >= context_limit


def _rotation_varies(model: PreTrainedModel) -> bool:
    """Tell whether the position embedding depends on the longest row: rows would then depend on their company."""
    rope = getattr(model.config.get_text_config(decoder=True), "rope_parameters", None) or {}
    kinds = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return any(kind.get("rope_type") in ("dynamic", "longrope") for kind in kinds)


def _shape(layer: Any) -> LayerShape:
    return LayerShape(layer.keys.shape[1], layer.keys.shape[-1], layer.values.shape[-1], layer.keys.dtype)


def _agrees(model: PreTrainedModel, backend: Backend) -> bool:
    """Compare a backend with the plain forward on two contexts of different age, fed in uneven pieces."""
    size: int = model.get_input_embeddings().weight.shape[0]  # type: ignore[index,assignment]
    contexts = [[(17 * i + 3) % size for i in range(11)], [(29 * i + 5) % size for i in range(7)]]
    lanes = [Lane(), Lane()]
    try:
        for lane in lanes:
            backend.reserve(lane, STEP)
        for cuts in (((0, 6), (0, 3)), ((6, 10), (3, 6)), ((10, 11), (6, 7))):
            feeds = [Feed(lane, ids[a:b]) for lane, ids, (a, b) in zip(lanes, contexts, cuts, strict=True)]
            got = backend.step(feeds).logits.float()
        plain = [model(torch.tensor([ids], device=model.device), use_cache=False).logits[:, -1] for ids in contexts]
    except torch.OutOfMemoryError:
        raise
    except Exception:  # the same
        return False
    want = torch.cat(plain).float()
    return bool((got - want).abs().max() <= TOLERANCE.get(model.dtype, 0.3) * want.std())
