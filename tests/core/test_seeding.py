"""Names decide seeds: the same everywhere, for ever, and without collisions."""

import subprocess
import sys

import pytest

from agentbench.core.seeding import derive, generator

PROGRAM = """
from agentbench.core.seeding import derive, generator
print(derive('task', 0, 7), derive('täsk', 1.5, None, True), generator('x').integers(10**9))
"""


def test_the_values_of_the_first_release_never_change() -> None:
    # sha256 of the JSON text ["task", 0, 7], its first 8 bytes, shifted right by one.
    assert derive("task", 0, 7) == int("f10ef7908556eb2c", 16) >> 1


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_seeds_are_the_same_in_every_process(hash_seed: str) -> None:
    environment = {"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    here = (derive("task", 0, 7), derive("täsk", 1.5, None, True), generator("x").integers(10**9))
    assert done.stdout.split() == [str(value) for value in here]


def test_a_hundred_thousand_names_have_a_hundred_thousand_seeds() -> None:
    seeds = {derive("task", root, index) for root in range(10) for index in range(10_000)}
    assert len(seeds) == 100_000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_types_and_boundaries_of_parts_count() -> None:
    names: list[tuple[str | int | float | bool | None, ...]] = [
        (1,), ("1",), (1.0,), (True,), (None,), ("None",), ("true",), ("1", "1"), ("11",), ("1,1",),
        ("a", ""), ("a",), (),
    ]  # fmt: skip
    assert len({derive(*name) for name in names}) == len(names)


def test_a_generator_is_fresh_each_time() -> None:
    first, second = generator("level", 3), generator("level", 3)
    assert first is not second
    assert first.random(8).tolist() == second.random(8).tolist()
    assert first.random() != generator("level", 3).random()


def test_what_has_no_canonical_name_is_refused() -> None:
    with pytest.raises(TypeError):
        derive(object())  # type: ignore[arg-type]
