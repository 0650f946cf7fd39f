"""Where the code of an environment runs: in this process, in a jail beside it, or in its container.

The agent's text reaches an environment's code, so one that nobody has reviewed, or that drives a browser, is better
kept away from the run. A container carries the source that is running, and plays the same episodes.
"""

import importlib.util
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args

import agentbench
from agentbench.core.env import Env
from agentbench.core.errors import IntegrityError, PrerequisiteError, UsageError
from agentbench.core.registry import Resolved
from agentbench.remote.client import RemoteEnv, processes_of
from agentbench.sandbox.base import Limits
from agentbench.sandbox.engine import labels, missing_engine
from agentbench.sandbox.images import Image, build, find
from agentbench.sandbox.process import jail_command, missing_bubblewrap

Kind = Literal["none", "process", "docker"]


def kind_of(said: str) -> Kind:
    """Return the kind of a place that somebody asked for.

    Raises:
        UsageError: There is none of this name.
    """
    for kind in get_args(Kind):
        if kind == said:
            return kind  # type: ignore[no-any-return]
    raise UsageError(f"sandbox is {said!r}, expected one of {', '.join(get_args(Kind))}")


LIMITS: Final = Limits(memory=2048, cpus=2.0, processes=512, lifetime=24 * 3600.0)
"""What one container may use, with all its sessions."""

_CONTAINED: Final = {"docker", "bubblewrap"}
"""What an environment needs that contains its commands itself."""


class Place:
    """Starts environments of one kind in one place.

    Args:
        resolved: The environment.
        kind: Where its code shall run; an environment that needs an engine itself contains its commands, not its code.
        allow_unsandboxed: Make do with a plain process where bubblewrap is missing.

    Raises:
        PrerequisiteError: No engine, no bubblewrap, or no image can be had.
        IntegrityError: It is unknown whether the image carries the source that runs, and it cannot be built anew.
        UsageError: The environment is a file, and the image does not hold it.
    """

    def __init__(self, resolved: Resolved, kind: Kind = "none", *, allow_unsandboxed: bool = False) -> None:
        self._resolved = resolved
        self.kind: Kind = "none" if resolved.needs & _CONTAINED else kind
        self.record: dict[str, Any] = {}
        """What isolation there is, for the run's lock; empty where there is none."""
        self.start: Callable[[], Env] = resolved.make
        """Starts an environment."""
        if self.kind != "none":
            command = self._contain() if self.kind == "docker" else self._jail(allow_unsandboxed)
            processes = processes_of(resolved.entry.name, command)
            self.start = lambda: RemoteEnv(resolved, processes)

    def _contain(self) -> Sequence[str]:
        entry = self._resolved.entry
        problem = missing_engine()
        if problem or shutil.which("docker") is None:
            raise PrerequisiteError(problem or "the docker command is missing; install Docker's command line")
        if self._resolved.origin.endswith(".py"):
            raise UsageError(
                f"{self._resolved.origin} is in no image; expected an installed environment, or --sandbox none"
            )
        image = _image(entry.image or entry.name)
        self.record = {"kind": "docker", "image": image.name, "digest": image.id, "content": image.content, **_limits()}
        return [
            *_docker_run(),
            image.id,
            "timeout",
            "-k",
            "5",
            str(int(LIMITS.lifetime)),
            *_serve("python", entry.name),
        ]

    def _jail(self, allow_unsandboxed: bool) -> Sequence[str]:
        name = self._resolved.origin if self._resolved.origin.endswith(".py") else self._resolved.entry.name
        problem = missing_bubblewrap()
        if problem and not allow_unsandboxed:
            raise PrerequisiteError(f"{problem}; or take a plain process, without isolation: --allow-unsandboxed")
        if problem:
            self.record = {"kind": "process", "isolation": "none"}
            return _serve(sys.executable, name)
        self.record = {"kind": "process", "isolation": "bubblewrap namespaces", "network": "none"}
        return [*jail_command(LIMITS, _readable(name), {}), *_serve(sys.executable, name)]


def _image(name: str) -> Image:
    """Return the image with the source that is running, building it where another one is carried.

    Raises:
        PrerequisiteError: There is none, and it cannot be built.
        IntegrityError: There is one, it may carry another source, and it cannot be built anew.
    """
    try:
        return build(name)
    except PrerequisiteError as error:
        found = find(name)
        if found is None:
            raise
        raise IntegrityError(
            f"{found.name} may carry another source than the one that runs: it cannot be checked or built anew: {error}"
        ) from error


def _serve(python: str, name: str) -> list[str]:
    return [python, "-m", "agentbench.cli", "serve", name, "--stdio"]


def _docker_run() -> list[str]:
    """Return the command that starts a container with nothing but what is said here; it ends with its input."""
    denied = ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    memory = f"{LIMITS.memory}m"
    limited = [
        "--memory",
        memory,
        "--memory-swap",
        memory,
        "--pids-limit",
        str(LIMITS.processes),
        "--user",
        LIMITS.user,
    ]
    folder = ["--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={LIMITS.disk}m,mode=1777", "--env", "HOME=/tmp"]
    known = [word for name, value in labels(LIMITS.lifetime).items() for word in ("--label", f"{name}={value}")]
    return ["docker", "run", "--rm", "-i", "--init", "--log-driver", "none", *denied, *limited, *folder, *known]


def _limits() -> dict[str, Any]:
    return {
        "network": LIMITS.network,
        "root": LIMITS.root,
        "memory_mib": LIMITS.memory,
        "processes": LIMITS.processes,
        "disk_mib": LIMITS.disk,
    }


def _readable(name: str) -> list[str]:
    """Return what our interpreter needs of this machine: itself, its packages, our source, and the file, if any."""
    spec = importlib.util.find_spec("agentbench_envs")
    sources = [agentbench.__file__, *((spec.submodule_search_locations or ()) if spec else ())]
    folders = {sys.prefix, sys.base_prefix, *(str(Path(source).parent) for source in sources)}
    files = [str(Path(name).resolve())] if name.endswith(".py") else []
    return sorted(each for each in folders if each not in ("/usr", "/")) + files
