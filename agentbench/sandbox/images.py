"""Images: of the base, of each environment with the source that is running, and what becomes of them.

    packages.txt  --mmdebstrap-->  agentbench/debian        where no registry can be reached
    base          --Dockerfile-->  agentbench/base
    environment   --Dockerfile-->  agentbench/NAME          wheels and source come in as build context

An image is labelled with a hash of everything that went into it; equal hashes are not built twice.
"""

import hashlib
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import Any, Final, NamedTuple

import agentbench
from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.sandbox.engine import asking, engine

CONTENT: Final = "agentbench.content"
"""The label with the hash of everything that went into an image."""

VERSION: Final = "agentbench.version"
"""The label with the version of the environment, or of AgentBench."""

SUITE: Final = "bookworm"

REGISTRY_BASE: Final = "debian:bookworm-slim"

LEFT_OUT: Final = ("__pycache__", "bundled", "recipes")
"""Folders of the source that no image needs."""

PYTHON: Final = (3, 11)
"""The Python of the base."""


class Image(NamedTuple):
    """An image that is here."""

    name: str
    id: str
    version: str
    content: str
    mib: float


def folder() -> Path:
    """Return the folder of the Dockerfiles: the installed one, or the checkout's."""
    package = Path(agentbench.__file__).parent
    installed = package / "_dockerfiles"
    return installed if installed.is_dir() else package.parent / "dockerfiles"


def names() -> list[str]:
    """Return what can be built."""
    return sorted(file.parent.name for file in folder().glob("*/Dockerfile"))


def debian(*environments: str) -> str:
    """Make an image of Debian from its archive, with the packages that the base and some environments need.

    Raises:
        PrerequisiteError: mmdebstrap is missing, or the archive cannot be reached.
    """
    if shutil.which("mmdebstrap") is None:
        raise PrerequisiteError("mmdebstrap is missing; install it with: sudo apt-get install mmdebstrap")
    packages = _packages("base", *environments)
    with tempfile.TemporaryDirectory(prefix="agentbench-images-") as scratch:
        file = Path(scratch) / "root.tar"
        command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise PrerequisiteError(f"mmdebstrap could not make {SUITE}: {last}")
        tag = f"agentbench/debian:{_digest(packages)[:12]}"
        with asking(f"importing {tag}"):
            changes = [f"LABEL {CONTENT}={_digest(packages)}", f"LABEL {VERSION}={SUITE}", 'CMD ["bash"]']
            repository, _, name = tag.partition(":")
            engine().import_image_from_file(str(file), repository=repository, tag=name, changes=changes)
    return tag


def build(name: str, *, base_image: str | None = None, wheels: Path | None = None) -> Image:
    """Build an image, unless there is one of the same content.

    Args:
        name: A folder of the Dockerfiles.
        base_image: What to begin with; by default Debian as `debian` made it, else from a registry.
        wheels: A folder of wheels to install from; by default pip collects them.

    Raises:
        UsageError: There is no such image.
        PrerequisiteError: The base image or a wheel cannot be had.
    """
    if name not in names():
        raise UsageError(f"there is no image {name!r}; known: {', '.join(names())}")
    base_image = base_image or _debian_here(name)
    base = _base(name, base_image)
    if name == "base":
        return base
    parts = dict(_parts(name))
    version = parts.pop("version").decode()
    found = find(name)
    content = _content(parts, base.id)
    if found is not None and found.content == content:
        return found
    if "COPY wheels" in parts["Dockerfile"].decode():
        parts |= _wheels(parts["requirements.txt"].decode(), wheels)
    return _build(name, parts, base.id, version, content=content)


def find(name: str) -> Image | None:
    """Return the image of this name, if it is here."""
    return next((image for image in images() if image.name == f"agentbench/{name}:latest"), None)


def images() -> list[Image]:
    """List our images."""
    with asking("listing images"):
        found = engine().images(filters={"label": CONTENT})
    return sorted(_image(tag, each) for each in found for tag in each["RepoTags"] or ["<none>"])


def prune() -> list[Image]:
    """Remove our images that have no name any more, because a newer one took it, and return them."""
    gone = [image for image in images() if image.name.startswith("<none>")]
    for image in gone:
        with asking("removing an image"):
            engine().remove_image(image.id, force=True)
    return gone


def _image(tag: str, each: Mapping[str, Any]) -> Image:
    known = each["Labels"]
    return Image(tag, each["Id"], known.get(VERSION, ""), known.get(CONTENT, ""), round(each["Size"] / 2**20, 1))


def _base(name: str, base_image: str) -> Image:
    """Make what an environment stands on: the base, with the packages of its own where it has some."""
    packages = _packages("base", name)
    tag = "base" if packages == _packages("base") else f"base-{name}"
    parts = {"Dockerfile": _file("base/Dockerfile"), "packages.txt": "\n".join(packages).encode()}
    return _build(tag, parts, base_image, agentbench.__version__)


def _debian_here(name: str) -> str:
    """Return Debian as made here with the packages of an image, making it where that is possible."""
    tag = f"agentbench/debian:{_digest(_packages('base', name))[:12]}"
    if any(image.name == tag for image in images()):
        return tag
    return debian(name) if shutil.which("mmdebstrap") else REGISTRY_BASE


def _packages(*folders: str) -> list[str]:
    files = (folder() / each / "packages.txt" for each in folders)
    return sorted({word for file in files if file.is_file() for word in file.read_text(encoding="utf-8").split()})


def _parts(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield what goes into the image of an environment, by its path in the build context."""
    dockerfile = _file(f"{name}/Dockerfile")
    yield "Dockerfile", dockerfile
    yield "version", _version(name).encode()
    if b"COPY wheels" in dockerfile:
        extras = re.search(r"^ARG EXTRAS=(\S*)", dockerfile.decode(), re.MULTILINE)
        yield "requirements.txt", "\n".join(_requirements(extras[1] if extras else "")).encode()
    if b"COPY source" in dockerfile:
        yield from _source(Path(agentbench.__file__).parent, "source/agentbench")
        spec = importlib.util.find_spec("agentbench_envs")
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from _source(Path(place), "source/agentbench_envs")


def _version(name: str) -> str:
    from agentbench.core.registry import environments

    entry = environments().get(name)
    return agentbench.__version__ if entry is None else str(entry.version)


def _source(root: Path, there: str) -> Iterator[tuple[str, bytes]]:
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root)
        if file.is_file() and not set(path.parts) & set(LEFT_OUT):
            yield f"{there}/{path.as_posix()}", file.read_bytes()


def _requirements(extra: str) -> list[str]:
    """Return what our distribution needs, with one extra."""
    found = []
    for line in requires("agentbench-gym") or ():
        need, _, marker = line.partition(";")
        if not marker or (extra and re.search(rf"extra == ['\"]{extra}['\"]", marker)):
            found.append(need.strip())
    return sorted(found)


def _wheels(requirements: str, house: Path | None) -> dict[str, bytes]:
    """Collect wheels for the base's Python."""
    with tempfile.TemporaryDirectory(prefix="agentbench-images-") as scratch:
        target = house
        if target is None:
            target = Path(scratch) / "wheels"
            pip = [sys.executable, "-m", "pip"]
            same = sys.version_info[:2] == PYTHON
            how = (
                ["wheel", "--wheel-dir"] if same else ["download", "--only-binary=:all:", "--python-version=3.11", "-d"]
            )
            done = subprocess.run(
                [*pip, *how, str(target), *requirements.split("\n")], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
                raise PrerequisiteError(f"pip cannot collect the wheels: {last}; name a folder of them with --wheels")
        found = {f"wheels/{file.name}": file.read_bytes() for file in sorted(target.glob("*.whl"))}
    if not found:
        raise PrerequisiteError(f"there is no wheel in {house}")
    return found | {"wheels/requirements.txt": requirements.encode()}


def _build(name: str, parts: Mapping[str, bytes], base: str, version: str, content: str | None = None) -> Image:
    content = content or _content(parts, base)
    tag = f"agentbench/{name}"
    found = find(name)
    if found is not None and found.content == content:
        return found
    api = engine()
    with asking(f"building {tag}"):
        lines = api.build(
            fileobj=_context(parts),
            custom_context=True,
            tag=tag,
            rm=True,
            forcerm=True,
            network_mode="host" if base == REGISTRY_BASE else "none",
            buildargs={"BASE_IMAGE": base},
            labels={CONTENT: content, VERSION: version},
            decode=True,
        )
        for line in lines:
            if "error" in line:
                raise PrerequisiteError(f"building {tag}: {' '.join(str(line['error']).split())}")
    made = find(name)
    assert made is not None
    return made


def _context(parts: Mapping[str, bytes]) -> io.BytesIO:
    """Pack a build context; equal parts give equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, data in sorted(parts.items()):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    stream.seek(0)
    return stream


def _content(parts: Mapping[str, bytes], base: str) -> str:
    return _digest([base, *((path, hashlib.sha256(data).hexdigest()) for path, data in sorted(parts.items()))])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _file(path: str) -> bytes:
    return (folder() / path).read_bytes()
