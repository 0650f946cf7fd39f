"""What the mathematics of training takes: numbers as tensors, arrays or lists, and labels of any kind."""

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from inspect import signature
from types import NoneType
from typing import Any, ParamSpec, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

Labels = Sequence[Hashable] | Tensor
"""One label per element, of any hashable kind; equal labels belong together, in any order."""


def takes_arrays(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function of tensors take numpy arrays, nested lists and numbers as well.

    Every argument that is annotated as a `Tensor` becomes one. One of floating point passes as it is, with its
    precision and its gradients. Python's floats are float64, and so become whole numbers and booleans, in which a mean
    would fail and a discount be rounded. Masks and turns are read by their values, so they may be of any type. Labels
    stay as they are, and results are tensors.
    """
    form = signature(function)
    numeric = [name for name, parameter in form.parameters.items() if _is_numeric(parameter.annotation)]

    @wraps(function)
    def welcoming(*args: P.args, **kwargs: P.kwargs) -> R:
        given = form.bind(*args, **kwargs)
        for name in numeric:
            if given.arguments.get(name) is not None:
                given.arguments[name] = _to_tensor(given.arguments[name])
        return function(*given.args, **given.kwargs)

    return welcoming


def label_list(labels: Labels, count: int) -> list[Hashable]:
    """Return labels as a list.

    Raises:
        ValueError: There are not as many as `count`.
    """
    listed: list[Hashable] = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else list(labels)
    if len(listed) != count:
        raise ValueError(f"expected one label for each of {count} rows or scores; found {len(listed)}")
    return listed


def number_labels(labels: Labels | None, count: int) -> list[int]:
    """Number labels from 0, in the order in which they appear; None gives each of `count` elements its own.

    Raises:
        ValueError: There are not as many as `count`.
    """
    numbers: dict[Hashable, int] = {}
    return [
        numbers.setdefault(label, len(numbers))
        for label in label_list(range(count) if labels is None else labels, count)
    ]


def _is_numeric(annotation: Any) -> bool:
    kinds = set(get_args(annotation)) or {annotation}
    return Tensor in kinds and kinds <= {Tensor, float, NoneType}


def _to_tensor(x: Any) -> Tensor:
    # The copy can be written to and has no negative strides, which `from_numpy` asks for.
    tensor = x if isinstance(x, Tensor) else torch.from_numpy(np.array(x, order="C"))
    return tensor if tensor.is_floating_point() else tensor.double()
