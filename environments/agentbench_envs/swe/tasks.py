"""Tasks: a repository with a failing behaviour, the tests that show it, and the patch that repairs it.

`load` reads four kinds of lists, as JSON or one object per line, also compressed:

    ours        `bug_patch` breaks the tree of `sdist`; `patch` repairs it. Made by `build`, and what the package ships
    SWE-bench   `image` holds the repository at `base_commit`; `test_patch` brings the tests, `patch` is the repair
    SWE-Gym     the same, with images of another name
    SWE-smith   `image_name` holds the working repository, and **`patch` is the bug**: its reverse is the repair

Sources: SWE-bench (arXiv 2310.06770), SWE-Gym (arXiv 2412.21139), SWE-smith (arXiv 2504.21798).
"""

import functools
import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from agentbench.core.errors import IntegrityError, PrerequisiteError, RecordError, UsageError
from agentbench.core.reading import Shape, check_of, parse_json, unpack
from agentbench.core.records import digest

HERE: Final = Path(__file__).parent
LIBRARIES: Final = HERE / "libraries"
SHIPPED: Final = HERE / "tasks.jsonl.gz"

SPLITS: Final = ("train", "valid", "test")

MOST_BYTES: Final = 64 * 2**20
"""The largest source distribution that is unpacked."""

_SALT: Final = 30
"""The number under which the few functions of our libraries fall into the splits most evenly, of those below 200."""

Tree = Mapping[str, bytes]
"""A repository: content by path."""

_TEXTS: Final = (
    *("repo", "patch", "bug_patch", "test_patch", "sdist", "problem_statement", "strategy", "function"),
    *("image", "docker_image", "image_name"),
)
_OPTIONAL: Final = {
    **dict.fromkeys(_TEXTS, check_of(str | None)),
    **dict.fromkeys(("FAIL_TO_PASS", "PASS_TO_PASS"), check_of(list[str] | str | None)),
    "failures": check_of(dict[str, str] | None),
    "requires": check_of(list[str] | None),
}
_ROW: Final = Shape({"instance_id": check_of(str), **_OPTIONAL}, optional=_OPTIONAL)
"""A task in any of the lists; what it says beside these is not read."""

_SWE_GYM: Final = frozenset(
    {
        *("Project-MONAI/MONAI", "bokeh/bokeh", "conan-io/conan", "dask/dask", "facebookresearch/hydra"),
        *("getmoto/moto", "iterative/dvc", "modin-project/modin", "pandas-dev/pandas", "pydantic/pydantic"),
        "python/mypy",
    }
)
"""The repositories of SWE-Gym, by which its rows can be told from SWE-bench's: their fields are the same."""

_NOT_SOURCE = re.compile(r"(^|/)(\.git|__pycache__)(/|$)|\.py[co]$")
"""What is left out of a tree; `.egg-info` stays, for it is how an uninstalled package knows its version."""
_PATCHED = re.compile(r"^(?:---|\+\+\+) [ab]/(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Instance:
    """One task."""

    instance_id: str
    repo: str
    fail_to_pass: tuple[str, ...]
    """Ids of the tests that fail, and must pass."""
    pass_to_pass: tuple[str, ...]
    """Ids of the tests that pass, and must go on doing so."""
    patch: str = ""
    """The repair; empty: the reverse of `bug_patch`."""
    bug_patch: str = ""
    """What is applied to the working tree first; empty: the tree is broken as it is."""
    test_patch: str = ""
    """What brings the hidden tests; empty: they are in the tree, and are withheld until the grading."""
    sdist: str = ""
    """Where the tree comes from: a library of ours, or a source distribution `name-version`; empty: the image."""
    image: str = ""
    """An image that holds the repository in `/testbed`; empty: this environment's."""
    problem_statement: str = ""
    """The issue in somebody's words; empty: one is written from the tests (`issues`)."""
    strategy: str = ""
    """How the bug was made: a recipe and the kinds of its mutations."""
    function: str = ""
    """Where: `file::function`, separated by blanks."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """What some of the failing tests say, by id: pytest's message with the lines that explain it."""
    requires: tuple[str, ...] = ()
    """Wheels that the tests need beside pytest, as `name==version`."""

    @property
    def test_files(self) -> list[str]:
        """The files that hold the named tests."""
        return sorted({test.partition("::")[0] for test in (*self.fail_to_pass, *self.pass_to_pass)})

    @property
    def withheld(self) -> list[str]:
        """The files that the agent never sees: those with a test that shows the bug."""
        failing = {test.partition("::")[0] for test in self.fail_to_pass}
        return sorted(failing | set(_PATCHED.findall(self.test_patch)))

    @property
    def repaired(self) -> list[str]:
        """The files that the repair changes."""
        return sorted(set(_PATCHED.findall(self.patch or self.bug_patch)))

    @property
    def content(self) -> str:
        """What the task is, as a hash: equal bugs in equal trees are equal tasks."""
        parts = [self.sdist or self.image or self.repo, self.bug_patch or self.patch, sorted(self.fail_to_pass)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def split(self) -> str:
        """`train`, `valid` or `test`, the same for all bugs in a function.

        A bug in several functions goes where the first belongs; `build` makes none between splits.
        """
        return split_of(self.sdist or self.repo, (self.function or self.instance_id).partition(" ")[0])

    def to_json(self) -> dict[str, Any]:
        """Write the task in the schema that `load` reads, without what is empty."""
        row = {key: value for key, value in asdict(self).items() if value}
        return {key.upper() if key.endswith("_to_pass") else key: value for key, value in row.items()}


def split_of(tree: str, place: str) -> str:
    """Return the split of the bugs in one place of a tree: of all places 70 %, 15 % and 15 %."""
    share = int(hashlib.sha256(json.dumps([_SALT, tree, place]).encode()).hexdigest()[:8], 16) / 16**8
    return "train" if share < 0.7 else "valid" if share < 0.85 else "test"


def load(path: str | Path) -> list[Instance]:
    """Read a list of tasks.

    Raises:
        UsageError: There is no such file, or it holds no tasks.
    """
    rows = _rows(Path(path).expanduser())
    if not rows:
        raise UsageError(f"{path} holds no tasks")
    return [_instance(row, f"{path}, task {number}") for number, row in enumerate(rows)]


def identity(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return an environment's arguments without what changes no task: where a list of them lies, and spare sandboxes.

    Raises:
        UsageError: There is no such list.
    """
    kept = {name: value for name, value in arguments.items() if name != "spare"}
    if kept.get("tasks") is not None:
        kept["tasks"] = digest([instance.to_json() for instance in load(str(kept["tasks"]))])
    return kept


def save(path: Path, instances: Sequence[Instance]) -> None:
    """Write tasks, one JSON object per line; compressed if the name ends in `.gz`.

    Raises:
        RecordError: The file cannot be written.
    """
    data = "".join(json.dumps(instance.to_json(), sort_keys=True) + "\n" for instance in instances).encode()
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error


def read_tree(sdist: str) -> Tree:
    """Return the tree of a bundled library, or of a source distribution that `build` has fetched.

    Raises:
        PrerequisiteError: It is neither.
    """
    if (LIBRARIES / sdist).is_dir() and re.fullmatch(r"\w+", sdist):
        return _bundled(sdist)
    archive = archive_of(sdist)
    if not archive.is_file():
        package, _, version = sdist.rpartition("-")
        raise PrerequisiteError(
            f"there is no {archive}; fetch it with: agentbench envs build swe --package {package}=={version} --count 0"
        )
    return read_archive(archive)


def cache_folder() -> Path:
    """Return where what was fetched is kept: in `AGENTBENCH_CACHE`, else in the user's cache folder."""
    home = os.environ.get("AGENTBENCH_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "agentbench")
    return Path(home).expanduser() / "swe"


def archive_of(sdist: str) -> Path:
    """Return where a source distribution is kept."""
    if not re.fullmatch(r"[\w.+-]+", sdist):
        raise UsageError(f"{sdist!r} is no name of a source distribution; expected something like toolz-1.2.0")
    return cache_folder() / f"{sdist}.tar.gz"


def read_wheels(requires: Sequence[str]) -> Tree:
    """Return the files of wheels that `build` has fetched, joined.

    Raises:
        PrerequisiteError: One of them is not there.
    """
    files: dict[str, bytes] = {}
    for requirement in requires:
        path = cache_folder() / "wheels" / f"{requirement}.whl"
        if not path.is_file():
            raise PrerequisiteError(f"there is no {path}; the command that built these tasks fetches it")
        files |= _wheel(path)
    return files


@functools.lru_cache(maxsize=16)
def _wheel(path: Path) -> Tree:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/") and ".." not in name}


@functools.lru_cache(maxsize=4)
def read_archive(path: Path) -> Tree:
    """Return the regular files of a source distribution, without the folder that holds them all.

    Raises:
        UsageError: It is no archive, is too large, or holds names that leave it.
    """
    files: dict[str, bytes] = {}
    left = MOST_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                if not member.isfile() or not name or _NOT_SOURCE.search(name):
                    continue
                left -= member.size
                if left < 0 or ".." in Path(member.name).parts:
                    raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB, or holds names that leave it")
                content = archive.extractfile(member)
                files[name] = content.read() if content else b""
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UsageError(f"{path} cannot be unpacked: {error}") from error
    return files


@functools.cache
def shipped() -> list[Instance]:
    """Return the tasks that come with the package."""
    return load(SHIPPED)


@functools.cache
def _bundled(name: str) -> Tree:
    folder = LIBRARIES / name
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if not _NOT_SOURCE.search(name)}


def _rows(path: Path) -> list[Any]:
    try:
        data = path.read_bytes()
        text = (unpack(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    try:
        value = parse_json(f"{path} is no JSON", text)
    except IntegrityError:
        return _lines(path, text)
    rows = value.get("instances", [value]) if isinstance(value, dict) else value
    return rows if isinstance(rows, list) else []


def _lines(path: Path, text: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            rows += [parse_json(f"{path}, line {number} is no JSON", line)] if line.strip() else []
        except IntegrityError as error:
            raise UsageError(str(error)) from error
    return rows


def _instance(row: Any, place: str) -> Instance:
    misfit = _ROW.misfit(row)
    if misfit:
        raise UsageError(f"{place} {misfit}; expected a task of ours, SWE-bench, SWE-Gym or SWE-smith")
    own = {name: row[name] for name in ("problem_statement", "strategy", "function", "sdist") if row.get(name)}
    patches = {name: row.get(name) or "" for name in ("patch", "bug_patch", "test_patch")}
    image = row.get("image") or row.get("docker_image") or row.get("image_name")
    if "image_name" in row and not patches["bug_patch"]:
        patches["bug_patch"], patches["patch"] = patches["patch"], ""
    instance = Instance(
        row["instance_id"],
        row.get("repo") or row["instance_id"].rpartition(".")[0],
        _tests(row, "FAIL_TO_PASS", place),
        _tests(row, "PASS_TO_PASS", place),
        image=image or ("" if "sdist" in own else _published_image(row)),
        failures=row.get("failures") or {},
        requires=tuple(row.get("requires") or ()),
        **patches,
        **own,
    )
    if not instance.fail_to_pass or not (instance.patch or instance.bug_patch):
        raise UsageError(f"{place} ({instance.instance_id}): expected FAIL_TO_PASS and a patch, found none")
    return instance


def _tests(row: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    """Read a list of tests; SWE-bench writes it as JSON within JSON."""
    value: Any = row.get(key) or []
    try:
        value = parse_json(key, value) if isinstance(value, str) else value
    except IntegrityError:
        value = None
    if not check_of(list[str])(value):
        raise UsageError(f"{place}: {key} is no list of tests")
    return tuple(value)


def _published_image(row: Mapping[str, Any]) -> str:
    """Name the image that is published for a task of SWE-Gym or SWE-bench; no such name holds a double underscore."""
    whose, blank = ("xingyaoww", "_s_") if row.get("repo") in _SWE_GYM else ("swebench", "_1776_")
    return f"{whose}/sweb.eval.x86_64.{row['instance_id'].lower().replace('__', blank)}:latest"
