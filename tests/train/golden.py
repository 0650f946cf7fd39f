"""Numbers recorded from published implementations: loading, looking up and comparing.

The data and its schema are described in `tests/data/golden/algorithms/README.md`. A *check* takes one case and asserts
that our functions give its numbers; it is registered under the file and the name of the function that was recorded.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FOLDER = Path(__file__).parents[1] / "data" / "golden" / "algorithms"


@dataclass
class Case:
    """One recorded call. Fields are looked up in its own inputs, then in its batch."""

    file: str
    id: str
    function: str
    repo: str
    params: dict[str, Any]
    fields: dict[str, Any]
    outputs: dict[str, Any]
    grads: dict[str, Any]
    rtol: float
    atol: float
    compared: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.file}/{self.id}"

    def __getitem__(self, name: str) -> Tensor:
        """Return an input in float64; a parameter of that name may say which field is meant."""
        renamed = self.params.get(name)
        return to_tensor(self.fields[renamed if isinstance(renamed, str) else name])

    @property
    def mask(self) -> Tensor:
        return self["response_mask"]

    @property
    def turns(self) -> Tensor:
        return self["turn_id"].long()

    def expect(self, output: str, got: Tensor, mask: Tensor | None = None) -> None:
        """Assert that an output was reproduced: everywhere, or where a mask is 1."""
        self._compare(f"outputs.{output}", got, _find(self.outputs, output), mask)

    def expect_grad(self, name: str, leaf: Tensor, mask: Tensor | None = None) -> None:
        """Assert that a gradient was reproduced, also where it is 0."""
        grad = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        self._compare(f"grads.{name}", grad, self.grads[name], mask)

    def _compare(self, what: str, got: Tensor, wanted: Any, mask: Tensor | None) -> None:
        want = to_tensor(wanted)
        if mask is not None:
            got, want = got[mask.bool()], want[mask.bool()]
        torch.testing.assert_close(
            got.double(), want, rtol=self.rtol, atol=self.atol, msg=lambda text: f"{self.key} {what}: {text}"
        )
        self.compared.append(what)


Check = Callable[[Case], None]
CHECKS: dict[tuple[str, str], Check] = {}
"""By file and recorded function."""


def checks(file: str, *functions: str) -> Callable[[Check], Check]:
    """Register a check for the cases of some functions of a file."""

    def register(check: Check) -> Check:
        CHECKS.update({(file, function): check for function in functions})
        return check

    return register


@cache
def load_cases() -> tuple[Case, ...]:
    """Return every case of every file."""
    return tuple(case for path in sorted(FOLDER.glob("*.json")) for case in _load(path))


def _load(path: Path) -> list[Case]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return [
        Case(
            file=path.stem,
            id=raw["id"],
            function=raw["source"]["function"],
            repo=raw["source"]["repo"],
            params=raw.get("params") or {},
            fields={**document["batches"].get(raw.get("batch"), {}), **(raw.get("inputs") or {})},
            outputs=raw["outputs"],
            grads=raw.get("grads") or {},
            rtol=raw["tolerance"]["rtol"],
            atol=raw["tolerance"]["atol"],
        )
        for raw in document["cases"]
    ]


def to_tensor(x: Any) -> Tensor:
    """Read nested lists as float64; "nan", "inf" and "-inf" are numbers."""
    return torch.tensor(_numbers(x), dtype=torch.float64)


def _numbers(x: Any) -> Any:
    return [_numbers(y) for y in x] if isinstance(x, list) else float(x)


def _find(outputs: dict[str, Any], path: str) -> Any:
    """Look up `a` or `a:b`, b inside a."""
    name, _, inner = path.partition(":")
    return outputs[name][inner] if inner else outputs[name]


def to_turns(x_bt: Tensor, turn_bt: Tensor) -> Tensor:
    """Add up what belongs to the tokens of each turn: [b, k]."""
    sums_bk = x_bt.new_zeros(len(x_bt), int(turn_bt.max()) + 2)
    return sums_bk.scatter_add(1, turn_bt + 1, x_bt)[:, 1:]


def to_tokens(x_bk: Tensor, turn_bt: Tensor) -> Tensor:
    """Copy what belongs to turns to their tokens, 0 elsewhere: [b, t]."""
    return torch.where(turn_bt >= 0, x_bk.gather(1, turn_bt.clamp(min=0)), 0.0)


def played(turn_bt: Tensor) -> Tensor:
    """Return 1 on the turns that have tokens: [b, k]."""
    return (to_turns((turn_bt >= 0).double(), turn_bt) > 0).double()
