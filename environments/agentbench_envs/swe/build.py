"""Makes tasks out of a working library and its tests, as many as wanted: break it, and keep what the tests notice.

    agentbench envs build swe --package toolz==1.2.0 --count 50 --out toolz.jsonl
    agentbench eval --env swe/list:all -E tasks=toolz.jsonl ...

A mutant becomes a task if, with everything run in a sandbox without network,

    the tests of the working tree say the same three times;
    those of the broken tree do so too, in time, and none of them is missing;
    some tests fail that passed before, and no more than half of them.

What a seed gives is fixed by library, seed and attempt; how fast the machine is decides only where loops are cut off,
and how busy it is does not, for what counts is processor time.
"""

import argparse
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.core.seeding import generator
from agentbench.sandbox.base import Sandbox
from agentbench_envs.swe.grade import KEPT, Report
from agentbench_envs.swe.issues import telling
from agentbench_envs.swe.mutate import RECIPES, Mutant, Recipe, mutate
from agentbench_envs.swe.places import open_sandbox
from agentbench_envs.swe.repository import PROTECTED, Repository
from agentbench_envs.swe.tasks import (
    LIBRARIES,
    SPLITS,
    Instance,
    archive_of,
    cache_folder,
    read_archive,
    read_tree,
    save,
    split_of,
)

RUNS: Final = 3
"""How often the tests must say the same."""

MOST_FAILING: Final = 0.5
"""Share of the tests that a bug may break; beyond it the program does not run at all."""

ATTEMPTS: Final = 20
"""Mutants tried per wanted task before giving up."""

SLOWER: Final = 3.0
"""Each process of a broken program may take this many times the working one's processor time, and five seconds more."""

PATIENCE: Final = 10.0
"""Seconds of wall time for each second of processor time that the tests may take: the machine may be busy."""

_NOT_BROKEN: Final = (
    *("setup.py", "versioneer.py", "*_version.py", "noxfile.py", "tasks.py"),
    *("doc/*", "docs/*", "examples/*", "bench/*", "benchmarks/*", "scripts/*", "tools/*", "misc/*"),
)
"""Files that belong to no library, beside the protected ones."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""What differs from run to run in a message."""

Say = Callable[[str], None]
Opener = Callable[[], Sandbox]


class Verdict(NamedTuple):
    """What the tests said about a mutant."""

    instance: Instance | None
    reason: str
    """Why there is no task; `valid` if there is one."""


class Library:
    """A working tree whose tests are known.

    Args:
        sdist: What `tasks.read_tree` understands.
        tests: Test files to use; empty for all.
        requires: Wheels that the tests need.
        opened: Makes a sandbox.

    Raises:
        UsageError: It has no tests, or they do not say the same three times.
    """

    passing: frozenset[str]
    """The tests that pass, by id."""
    left_out: dict[str, str]
    """Why a file's tests cannot be loaded, by file."""
    limit: int
    """Seconds of processor time for each process of a run of the tests."""

    def __init__(self, sdist: str, tests: Sequence[str], requires: Sequence[str], opened: Opener) -> None:
        tree = read_tree(sdist)
        self.sdist, self._opened = sdist, opened
        files = list(tests) or _test_files(tree)
        self.sources = {name: text.decode() for name, text in tree.items() if _is_source(name, tree, files)}
        missing = [name for name in files if name not in tree]
        if missing or not files or not self.sources:
            what = f"no file {missing[0]}" if missing else "no tests" if not files else "nothing to break"
            raise UsageError(f"{sdist} has {what}")
        package = re.sub(r"-[\d.]+\w*$", "", sdist)
        self._plain = Instance(
            "", package, (), tuple(f"{name}::" for name in files), sdist=sdist, requires=tuple(requires)
        )
        self.limit = 600
        first, *others = self._run(self._plain, broken=False)
        self.limit = math.ceil(SLOWER * min(run.seconds for run in (first, *others)) + 5)
        if first.doubt or len(others) < RUNS - 1:
            raise UsageError(f"the tests of {sdist} cannot be used: {first.doubt or 'they differ from run to run'}")
        self.passing = frozenset(test for test, outcome in first.status.items() if outcome in KEPT)
        self.left_out = {file: said for file, said in first.messages.items() if "::" not in file}
        if not self.passing:
            said = next(iter(first.messages.values()), "they are all skipped, or there are none")
            raise UsageError(f"no test of {sdist} passes: {said}; name what they need by --requires")

    def splits(self, mutant: Mutant) -> set[str]:
        """Return the splits of what a mutant breaks."""
        return {split_of(self.sdist, place) for place in mutant.places}

    def judge(self, recipe: Recipe, mutant: Mutant) -> Verdict:
        """Run the tests against a mutant."""
        if len(self.splits(mutant)) > 1:
            return Verdict(None, "between splits")
        candidate = replace(
            self._plain,
            patch=mutant.fix,
            bug_patch=mutant.bug,
            strategy=" ".join([recipe, *sorted({one.kind for one in mutant.mutations})]),
            function=" ".join(mutant.places),
        )
        first, *others = self._run(candidate, broken=True)
        if first.doubt:
            cut_off = "were killed" in first.doubt or "did not end" in first.doubt
            return Verdict(None, "cut off" if cut_off else "does not run")
        status = first.status
        failing = self._failing(status)
        if reason := self._useless(status):
            return Verdict(None, reason)
        if len(others) < RUNS - 1:
            return Verdict(None, "differs from run to run")
        kept = tuple(sorted(test for test in self.passing - failing if status[test] in KEPT))
        said = {test: _ADDRESS.sub("", first.messages.get(test, "")) for test in telling(failing)}
        whole = replace(candidate, fail_to_pass=tuple(sorted(failing)), pass_to_pass=kept, failures=said)
        return Verdict(replace(whole, instance_id=f"{self.sdist}.{recipe}.{whole.content[:10]}"), "valid")

    def _failing(self, status: Mapping[str, str]) -> set[str]:
        return {test for test in self.passing if status.get(test) in ("FAILED", "ERROR")}

    def _useless(self, status: Mapping[str, str]) -> str:
        """Say why a mutant whose tests end like this is no task; empty if it may be one."""
        failing = self._failing(status)
        if self.passing - status.keys():
            return "tests are missing"
        if len(failing) > MOST_FAILING * len(self.passing):
            return "breaks everything"
        return "" if failing else "no effect"

    def _run(self, instance: Instance, *, broken: bool) -> list[Report]:
        """Run the tests until they were run often enough, are no use, or say something else than before."""
        runs: list[Report] = []
        with self._opened() as sandbox:
            repository = Repository(sandbox, instance)
            repository.prepare(withhold=False, broken=broken)
            while len(runs) < RUNS:
                run = repository.test(PATIENCE * self.limit, self.limit)
                if runs and run.status != runs[0].status:
                    break
                runs.append(run)
                if run.doubt or (broken and self._useless(run.status)):
                    break
        return runs


def make_tasks(
    library: Library,
    wanted: int,
    *,
    seed: int,
    recipes: Sequence[Recipe] = RECIPES,
    split: str | None = None,
    jobs: int = 1,
    say: Say = print,
) -> Iterator[Instance]:
    """Yield validated tasks; fewer than wanted where the library has no more to break.

    Args:
        library: What is broken.
        wanted: How many.
        seed: Decides the mutants.
        recipes: Which to use, in turn.
        split: Break only functions of this split.
        jobs: Sandboxes at once.
        say: Called with a line about every mutant.
    """
    found = 0
    mutants = _mutants(library, seed, recipes, wanted * ATTEMPTS, split)
    with ThreadPoolExecutor(jobs) as threads:
        while batch := list(islice(mutants, jobs)):
            for verdict in threads.map(lambda pair: library.judge(*pair), batch):
                found += verdict.instance is not None
                say(f"{found}/{wanted} {verdict.reason}")
                if verdict.instance is not None:
                    yield verdict.instance
                if found == wanted:
                    return


def fetch(package: str) -> str:
    """Fetch a source distribution from the index that pip uses, and return its name and version.

    pip runs the build backend of a source distribution to learn its metadata: fetch what you would install.

    Raises:
        UsageError: The name is no `name==version`.
        PrerequisiteError: pip cannot fetch it.
    """
    sdist = _pinned(package)
    if not archive_of(sdist).is_file():
        _download(["--no-binary", ":all:", package], "*.tar.gz", archive_of(sdist))
    return sdist


def fetch_wheel(requirement: str) -> str:
    """Fetch a pure wheel that the tests need.

    Raises:
        UsageError: The name is no `name==version`.
        PrerequisiteError: pip cannot fetch it.
    """
    _pinned(requirement)
    kept = cache_folder() / "wheels" / f"{requirement}.whl"
    if not kept.is_file():
        _download(["--only-binary", ":all:", requirement], "*-none-any.whl", kept)
    return requirement


def main(arguments: Sequence[str]) -> None:
    """Do what `agentbench envs build swe` is asked for."""
    options = _parser().parse_args(arguments)
    if options.count < 0 or options.jobs < 1:
        raise UsageError(f"found --count {options.count} and --jobs {options.jobs}; expected at least 0 and 1")
    sdist = fetch(options.package) if options.package else options.library
    requires = [fetch_wheel(requirement) for requirement in options.requires]
    counts: Counter[str] = Counter()

    def say(line: str) -> None:
        counts[line.partition(" ")[2]] += 1
        print(line, file=sys.stderr, flush=True)  # noqa: T201

    out = options.out or Path(f"{sdist}.jsonl")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"there is no folder for {out}")
    if not options.count:
        return
    library = Library(sdist, options.tests, requires, open_sandbox)
    for file, reason in library.left_out.items():
        print(f"left out: {file}: {reason}", file=sys.stderr)  # noqa: T201
    recipes = options.recipe or RECIPES
    made = list(
        make_tasks(
            library,
            options.count,
            seed=options.seed,
            recipes=recipes,
            split=options.split,
            jobs=options.jobs,
            say=say,
        )
    )
    told = ", ".join(f"{n} {what}" for what, n in counts.items()) or "nothing can be broken"
    summary = f"{sdist}: {len(library.passing)} tests pass; {told}"
    if not made:
        raise UsageError(f"no tasks came of {summary}")
    save(out, made)
    print(f"{summary}; wrote {len(made)} tasks to {out}", file=sys.stderr)  # noqa: T201


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Make one line of it, as everywhere else."""
        raise UsageError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="agentbench envs build swe", description="Make tasks from a library's tests.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--package", help="a source distribution, as name==version")
    source.add_argument("--library", choices=sorted(path.name for path in LIBRARIES.iterdir()), help="one of ours")
    parser.add_argument("--count", type=int, default=20, help="tasks to make; 0 fetches only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", action="append", choices=RECIPES, help="may be repeated; all by default")
    parser.add_argument("--split", choices=SPLITS, help="break only functions of this split")
    parser.add_argument("--tests", action="append", default=[], help="a test file to use; may be repeated")
    parser.add_argument("--requires", action="append", default=[], help="a wheel that the tests need, as name==version")
    parser.add_argument("--jobs", type=int, default=2, help="sandboxes at once")
    parser.add_argument("--out", type=Path, help="the file to write; .jsonl or .jsonl.gz")
    return parser


def _mutants(
    library: Library, seed: int, recipes: Sequence[Recipe], most: int, split: str | None = None
) -> Iterator[tuple[Recipe, Mutant]]:
    """Yield different mutants of a library, in the order that the seed gives."""
    seen: set[str] = set()
    for attempt in range(most):
        recipe = recipes[attempt % len(recipes)]
        mutant = mutate(library.sources, recipe, generator("swe build", library.sdist, seed, attempt))
        if mutant is not None and mutant.bug not in seen and split in (None, *library.splits(mutant)):
            seen.add(mutant.bug)
            yield recipe, mutant


def _test_files(tree: Mapping[str, bytes]) -> list[str]:
    """Return the files in which pytest looks for tests, or else those that are called so."""
    for patterns in (("test_*.py", "*_test.py"), ("test.py", "tests.py")):
        files = [name for name in tree if any(fnmatchcase(name.rpartition("/")[2], each) for each in patterns)]
        if files := [name for name in files if not any(fnmatchcase(name, each) for each in _NOT_BROKEN)]:
            return files
    return []


def _is_source(name: str, tree: Mapping[str, bytes], tests: Sequence[str]) -> bool:
    """Tell whether a file is the library's own code."""
    if not name.endswith(".py") or name in tests:
        return False
    if any(fnmatchcase(name, pattern) for pattern in (*PROTECTED, *_NOT_BROKEN)):
        return False
    try:
        tree[name].decode()
    except UnicodeDecodeError:
        return False
    return True


def _pinned(requirement: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.!+]+", requirement):
        raise UsageError(f"found {requirement!r}, expected name==version, for example toolz==1.2.0")
    return requirement.replace("==", "-")


def _download(what: list[str], pattern: str, kept: Path) -> None:
    """Let pip fetch one file, and keep it under a name of ours."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        files = list(Path(folder).glob(pattern))
        if done.returncode or len(files) != 1:
            lines = re.findall(r"(?im)^error: (.+)", done.stderr) or [f"no file {pattern} came"]
            said = " ".join(lines[0].split())[:300]
            raise PrerequisiteError(f"pip cannot fetch {what[-1]}: {said}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        if pattern.endswith(".gz"):
            read_archive(files[0])
        shutil.move(files[0], kept)
