"""The container engine: how it is reached, what to do when it is not, and how its errors read.

The engine is the one that `DOCKER_HOST` names, or the local one. Everything that it makes for us carries labels, so
that a reaper knows what is ours, whose it is, and since when nobody can need it.
"""

import contextlib
import functools
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentbench.core.errors import Failure, PrerequisiteError
from agentbench.sandbox.owner import lives, owner

if TYPE_CHECKING:
    import docker

OWNED = "agentbench.sandbox"
"""The label of every container that is a sandbox."""

OWNER = "agentbench.owner"
"""The label that says whose it is: host, process id, and the process's start in clock ticks since boot."""

EXPIRES = "agentbench.expires"
"""The label that says when its lifetime is over, in seconds since 1970."""

CALL_SECONDS = 60.0
"""How long the engine may take to answer a call."""

FULL_BYTES = 2**30
"""An engine with less free disk is full."""


def engine() -> "docker.APIClient":
    """Return the client of the engine, made once per process.

    Raises:
        PrerequisiteError: There is no engine that answers; the message says what to do.
    """
    _need_package()
    return _connect(os.getpid())


def missing_engine() -> str | None:
    """Say why sandboxes cannot run in containers here and what to do, or None if they can."""
    try:
        info = engine().info()
    except PrerequisiteError as error:
        return str(error)
    except Exception as error:
        _connect.cache_clear()
        return _advice(error)
    folder = Path(info.get("DockerRootDir", "/nowhere"))
    if folder.is_dir() and shutil.disk_usage(folder).free < FULL_BYTES:
        return f"the engine's disk ({folder}) is full; free some with: agentbench sandbox cleanup; docker system prune"
    return None


@contextlib.contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn whatever goes wrong between us and the engine into a `Failure`.

    Args:
        what: What is being asked, for the message: "starting a container".

    Raises:
        PrerequisiteError: The docker package is missing, or the engine lacks an image.
        Failure: Anything else.
    """
    _need_package()
    import docker.errors
    import requests

    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise PrerequisiteError(
            f"{what}: {_line(error)}; build images with: agentbench images build NAME, or docker pull"
        ) from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise Failure("sandbox", f"{what}: {_line(error)}") from error


class Left(NamedTuple):
    """A sandbox that the engine knows."""

    id: str
    image: str
    status: str
    owner: str
    orphaned: bool
    """Nobody can need it: its owner is dead, or its lifetime over."""


def sandboxes() -> list[Left]:
    """List the containers that are sandboxes, whoever made them."""
    with asking("listing sandboxes"):
        found = engine().containers(all=True, filters={"label": OWNED})
    return [_left(container) for container in found]


def cleanup(*, everything: bool = False) -> list[Left]:
    """Remove sandboxes that nobody can need, and return them.

    Args:
        everything: Also those that are in use, by whatever process.
    """
    gone = [each for each in sandboxes() if everything or each.orphaned]
    for each in gone:
        remove(each.id)
    return gone


def remove(container: str) -> None:
    """Remove a container with its volumes, whatever state it is in; one that is gone or going already is fine."""
    import docker.errors

    with asking("removing a container"):
        try:
            engine().remove_container(container, force=True, v=True)
        except docker.errors.APIError as error:
            if error.status_code not in (404, 409):
                raise


def labels(lifetime: float) -> dict[str, str]:
    """Return the labels of a sandbox that this process makes now."""
    return {OWNED: "1", OWNER: owner(), EXPIRES: str(int(time.time() + lifetime))}


def _need_package() -> None:
    if importlib.util.find_spec("docker") is None:
        raise PrerequisiteError("the docker package is missing; install it with: pip install -e '.[docker]'")


@functools.lru_cache(maxsize=1)
def _connect(_pid: int) -> "docker.APIClient":
    """Return a client; a forked child makes one of its own."""
    import docker

    try:
        return docker.APIClient(version="auto", timeout=CALL_SECONDS, **docker.utils.kwargs_from_env())
    except Exception as error:
        raise PrerequisiteError(_advice(error)) from error


def _advice(error: Exception) -> str:
    where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    said = _line(error)
    if "Permission denied" in said:
        return (
            f"this user may not use the engine at {where}; join its group: sudo usermod -aG docker $USER, then log in"
        )
    return f"no container engine answers at {where} ({said}); start one: sudo systemctl start docker"


def _line(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return " ".join(str(explanation or error).split())[:300]


def _left(container: dict[str, Any]) -> Left:
    known = container["Labels"]
    whose, expires = known.get(OWNER, ""), known.get(EXPIRES, "0")
    over = not expires.isdigit() or int(expires) < time.time()
    return Left(container["Id"], container["Image"], container["State"], whose, over or not lives(whose))
