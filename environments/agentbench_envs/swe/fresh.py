"""Tasks without end: number SEED is made when it is asked for, and is the same wherever it is.

    agentbench eval --env swe/fresh:train -E library=formula -E recipe=several ...

The seed draws mutants of a library until one is a valid task; `build` says what that means. Only functions that belong
to the split `train` are broken: `valid` and `test` stay the lists that come with the package, and share no broken
function with it. What a seed gives depends on the library's files, the recipe and the code that makes tasks; these name
the file under which a task is kept, so that it is made once. How fast a machine is decides only where loops are cut
off, with time to spare (`build.SLOWER`).
"""

import functools
import hashlib
import threading
from collections import defaultdict
from typing import Any, Final

from agentbench.core.errors import UsageError
from agentbench.core.lock import locked
from agentbench.core.records import digest, write_json
from agentbench.core.seeding import generator
from agentbench_envs.swe.build import Library
from agentbench_envs.swe.env import SweEnv
from agentbench_envs.swe.mutate import RECIPES, Recipe, mutate
from agentbench_envs.swe.places import KINDS, Kind, open_sandbox, this_python
from agentbench_envs.swe.tasks import HERE, LIBRARIES, Instance, cache_folder, load, read_tree

DRAWS: Final = 500
"""Mutants drawn for one task before its library counts as unbreakable."""

_MAKERS: Final = (
    *("tasks.py", "mutate.py", "build.py", "fresh.py", "issues.py"),
    *("repository.py", "reporter.py", "grade.py", "places.py"),
)
"""The files of this package that decide what a seed gives."""

_opening: defaultdict[tuple[str, Kind], threading.Lock] = defaultdict(threading.Lock)
"""Held while a library's tests are run for the first time."""


class FreshEnv(SweEnv):
    """Find and repair a bug that was made for this seed.

    Args:
        library: The tree that is broken: one of ours, or a source distribution that `build` has fetched; None takes
            ours in turn, by the seed.
        recipe: Only bugs of this recipe; None draws one.
        split: `train` makes tasks; `valid` and `test` are those that come with the package.
        **arguments: As for `SweEnv`.

    Raises:
        UsageError: An argument is out of its range.
        PrerequisiteError: The library was not fetched.
    """

    def __init__(
        self, *, library: str | None = None, recipe: Recipe | None = None, split: str = "train", **arguments: Any
    ) -> None:
        if arguments.get("tasks"):
            raise UsageError("swe/fresh makes its tasks; a file of tasks is for swe/list")
        if recipe not in (None, *RECIPES):
            raise UsageError(f"found recipe {recipe!r}, expected one of {', '.join(RECIPES)}")
        self._makes = split == "train"
        if not self._makes:
            super().__init__(library=library, recipe=recipe, split=split, **arguments)
            return
        super().__init__(split="all", **arguments)
        self.task_count = None
        self._recipe, self._kind = recipe, arguments.get("sandbox", KINDS[0])
        self._libraries = sorted(path.name for path in LIBRARIES.iterdir()) if library is None else [library]
        for name in self._libraries:
            read_tree(name)

    def task(self, seed: int) -> Instance:
        """Return the task of a seed, which takes some seconds and sandboxes the first time.

        Raises:
            UsageError: The library has no valid bug of this recipe.
            PrerequisiteError: No engine answers.
        """
        if not self._makes:
            return super().task(seed)
        return fresh_task(self._libraries[seed % len(self._libraries)], seed, self._recipe, self._kind)


def fresh_task(library: str, seed: int, recipe: Recipe | None = None, kind: Kind = "docker") -> Instance:
    """Make task number `seed` of a library, or read it where it was made before.

    Args:
        library: What is broken.
        seed: The number.
        recipe: Of the bug; None draws one.
        kind: Of the sandboxes in which it is validated.

    Raises:
        UsageError: The library has no usable tests, or no valid bug of this recipe.
        PrerequisiteError: It was not fetched, or no engine answers.
    """
    python = this_python().version if kind == "process" else ""
    name = digest(_contents(library), library, seed, recipe, kind, python, _code())[:32]
    path = cache_folder() / "fresh" / f"{name}.json"
    with locked(path.with_suffix(".lock")):
        if not path.is_file():
            write_json(path, _make(_open(library, kind), seed, recipe).to_json())
        return load(path)[0]


def _make(library: Library, seed: int, recipe: Recipe | None) -> Instance:
    rng = generator("swe fresh", library.sdist, seed, recipe)
    for _ in range(DRAWS):
        chosen = recipe or RECIPES[rng.integers(len(RECIPES))]
        mutant = mutate(library.sources, chosen, rng)
        if mutant is not None and library.splits(mutant) == {"train"}:
            instance = library.judge(chosen, mutant).instance
            if instance is not None:
                return instance
    raise UsageError(f"{library.sdist} has no valid bug of recipe {recipe or 'any'} among {DRAWS} that were tried")


def _open(library: str, kind: Kind) -> Library:
    """Return a library whose tests were run; once per process, whoever asks first."""
    with _opening[library, kind]:
        return _opened(library, kind)


@functools.lru_cache(maxsize=8)
def _opened(library: str, kind: Kind) -> Library:
    return Library(library, (), (), functools.partial(open_sandbox, kind=kind))


@functools.lru_cache(maxsize=8)
def _contents(library: str) -> str:
    files = sorted(read_tree(library).items())
    return digest([(name, hashlib.sha256(content).hexdigest()) for name, content in files])


@functools.cache
def _code() -> str:
    return digest([hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in _MAKERS])
