"""Where the commands of this environment run: in a container each, or in a jail of this machine's own namespaces.

A container is the rule. The jail is for machines where no engine may run (many clusters): the same tasks, tools and
grading, with this machine's own Python, and less isolation; the record of every episode says which it was.
"""

import functools
import json
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import agentbench
from agentbench.core.errors import PrerequisiteError
from agentbench.sandbox.base import Limits, Sandbox
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.pool import Pool
from agentbench.sandbox.process import ProcessSandbox
from agentbench_envs.swe.repository import TOOLS
from agentbench_envs.swe.tasks import HERE, Instance, Tree, cache_folder

Kind = Literal["docker", "process"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

IMAGE: Final = "agentbench/swe"
"""The image for tasks that bring their own tree: Python, pytest and git."""

LIMITS: Final = Limits(memory=1024, cpus=1.0, processes=128, disk=256, lifetime=3600.0)

FOREIGN: Final = Limits(memory=4096, cpus=2.0, processes=256, disk=512, lifetime=3600.0, root="writable", user="0:0")
"""For images that hold a repository in `/testbed`, which belongs to root there."""

FRESH: Final = 0.1
"""The share of its lifetime after which a waiting sandbox is too old: the rest must do for an episode."""

SYSTEM: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where a jail looks for programs."""

OLDEST: Final = (3, 11)
"""The Python that the libraries of the tasks are written for."""

_TESTING: Final = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""The distributions that a jail is given: pytest and what it needs."""

_UNUSED: Final = "pygments/lexers/"
_USED: Final = tuple(f"{_UNUSED}{name}.py" for name in ("__init__", "_mapping", "diff", "python"))


def open_sandbox(instance: Instance | None = None, kind: Kind = "docker") -> Sandbox:
    """Return a fresh sandbox for a task; None stands for one that brings its own tree.

    Raises:
        PrerequisiteError: For a jail, this machine lacks something.
    """
    if kind == "process":
        return _open_jail()
    if instance is not None and instance.image:
        return DockerSandbox(instance.image, FOREIGN)
    return DockerSandbox(IMAGE, LIMITS)


class Stock:
    """Fresh sandboxes for the episodes of one environment; where it pays, one is started while another works.

    An episode takes two: the agent's, and the one for grading. The third would be the next episode's, which in general
    is of the same image; where every task has an image of its own, none is started in advance.

    Args:
        kind: What they are.
        spare: How many wait, started and unused; 0 starts each when it is needed.

    Raises:
        PrerequisiteError: A jail lacks something here.
    """

    def __init__(self, kind: Kind, spare: int) -> None:
        if kind == "process":
            this_python()
            _testing()
        self._kind = kind
        self._spare = spare
        self._pool: Pool | None = None
        self._image = ""

    def take(self, instance: Instance) -> Sandbox:
        """Return a started sandbox that nobody has used, for a task; close it.

        Raises:
            PrerequisiteError: No engine answers, or the image is not here.
            Failure: It cannot be started.
        """
        if self._pool is None or self._image != instance.image:
            self.close()
            self._image = instance.image
            spare = 0 if instance.image else self._spare
            self._pool = Pool(functools.partial(open_sandbox, instance, self._kind), spare=spare, fresh=FRESH)
        return self._pool.take()

    def close(self) -> None:
        """Close what waits. Idempotent; the stock can be used again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


class Python(NamedTuple):
    """The Python of this machine that a jail shows."""

    version: str
    """As folders are named after it: `3.11`."""
    packages: tuple[str, ...]
    """Folders of installed packages, which a jail hides: one of them may be what a task is about, unbroken."""


@functools.cache
def this_python() -> Python:
    """Look at the Python of this machine; its own one, for that of a virtual environment may be out of a jail's reach.

    Raises:
        PrerequisiteError: It or git is missing, or it is too old or does not work.
    """
    missing = [name for name in ("git", "python3") if shutil.which(name, path=SYSTEM) is None]
    if missing:
        raise PrerequisiteError(f"there is no {' and no '.join(missing)} in {SYSTEM}, which -E sandbox=process uses")
    ask = "import json, sys; print(json.dumps([*sys.version_info[:2], *sys.path]))"
    command = ["env", "-i", f"PATH={SYSTEM}", "python3", "-c", ask]
    try:
        asked = subprocess.run(command, capture_output=True, check=True, timeout=60)
    except subprocess.SubprocessError as error:
        raise PrerequisiteError(
            f"this machine's python3, which -E sandbox=process uses, does not work: {error}"
        ) from error
    major, minor, *path = json.loads(asked.stdout)
    if (major, minor) < OLDEST:
        raise PrerequisiteError(f"this machine's python3 is {major}.{minor}; -E sandbox=process needs 3.11 or newer")
    others = (str(each) for root in ("/usr", "/usr/local") for each in Path(root).glob("lib/python*/*-packages"))
    packages = {each for each in (*path, *others) if each.endswith(("/site-packages", "/dist-packages"))}
    return Python(f"{major}.{minor}", tuple(sorted(packages)))


def _open_jail() -> Sandbox:
    """Start a jail, with pytest where `Repository` lets Python look for a user's own packages."""
    version, packages = this_python()
    source = Path(agentbench.__file__).parents[1]
    checkout = [str(source)] if (source / "pyproject.toml").is_file() else []
    sandbox = ProcessSandbox(LIMITS, hidden=[*packages, *checkout, str(HERE.parent), str(cache_folder())])
    folder = f"{sandbox.workspace}/{TOOLS}/lib/python{version}/site-packages"
    try:
        sandbox.put({f"{folder}/{name}": data for name, data in _testing().items()})
    except BaseException:
        sandbox.close()
        raise
    return sandbox


@functools.cache
def _testing() -> Tree:
    """Return the files of our interpreter's pytest and of what it needs; of pygments, what it really uses.

    Raises:
        PrerequisiteError: They are not here, or nobody knows their files.
    """
    files: dict[str, bytes] = {}
    for name in _TESTING:
        try:
            found = distribution(name)
        except PackageNotFoundError:
            found = None
        if found is None or not found.files:
            raise PrerequisiteError(f"pip installed no {name} here, which -E sandbox=process uses: pip install pytest")
        wanted = (path for path in found.files if path.suffix == ".py" or path.name == "METADATA")
        inside = (path for path in wanted if ".." not in path.parts)
        files |= {str(path): Path(str(found.locate_file(path))).read_bytes() for path in inside}
    return {name: data for name, data in files.items() if not name.startswith(_UNUSED) or name in _USED}
