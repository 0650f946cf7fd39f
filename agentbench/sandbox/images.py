"""Images: of the base, of each environment with the source that is running, and what becomes of them.

    packages.txt  --mmdebstrap-->  agentbench/debian      where no registry can be reached
    packages.txt  --Dockerfile-->  agentbench/base        Debian with what every image needs
    wheels        --Dockerfile-->  agentbench/python      an environment of Python, for the environments
    source        --Dockerfile-->  agentbench/NAME

Where an environment wants further packages or wheels, `debian`, `base` and `python` have its name as a suffix. Each is
labelled with a hash of its *recipe*, which decides whether it must be built again, and a hash of its *content*: the
recipe with every version of a Debian package and every wheel that went in. `ingredients.py` collects these.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

import agentbench
from agentbench.core.errors import PrerequisiteError, UsageError
from agentbench.core.lock import locked
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.engine import asking, engine
from agentbench.sandbox.ingredients import (
    Parts,
    digest,
    dockerfile,
    epoch,
    extras,
    hashes,
    last_line,
    names,
    pack,
    packages,
    requirements,
    source,
    wheels,
)

RECIPE: Final = "agentbench.recipe"
"""The label with the hash of what was asked for."""

CONTENT: Final = "agentbench.content"
"""The label with the hash of everything that went in."""

VERSION: Final = "agentbench.version"
"""The label with the version of the environment, of AgentBench, or of Debian."""

PACKAGES: Final = "agentbench.packages"
"""The label with the version of each Debian package, as JSON."""

WHEELS: Final = "agentbench.wheels"
"""The label with the SHA-256 of each wheel, as JSON."""

SUITE: Final = "bookworm"

REGISTRY_BASE: Final = f"debian:{SUITE}-slim"

BASE_VARIABLE: Final = "AGENTBENCH_BASE_IMAGE"
"""Names an image of Debian to begin with."""

WHEELS_VARIABLE: Final = "AGENTBENCH_WHEELS"
"""Names a folder of wheels."""

SNAPSHOTS: Final = "AGENTBENCH_DEBIAN_SNAPSHOTS"
"""Names a mirror of snapshot.debian.org/archive."""


class Image(NamedTuple):
    """An image that is here."""

    name: str
    id: str
    version: str
    recipe: str
    content: str
    mib: float
    packages: Mapping[str, str]
    """Version of each Debian package."""
    wheels: Mapping[str, str]
    """SHA-256 of each wheel."""


def debian(name: str = "base", *, snapshot: str | None = None) -> Image:
    """Make an image of Debian from its archive, with the packages that an image needs.

    Equal packages give equal bytes: mmdebstrap leaves no time behind.

    Args:
        name: The image that is to stand on it.
        snapshot: The archive as it was then, as snapshot.debian.org writes times: `20261101T000000Z`.

    Raises:
        UsageError: There is no such image, or the time is written otherwise.
        PrerequisiteError: mmdebstrap is missing, or the archive cannot be reached.
    """
    _know(name)
    if snapshot is not None and not re.fullmatch(r"\d{8}T\d{6}Z", snapshot):
        raise UsageError(f"the snapshot is {snapshot!r}, expected a time such as 20261101T000000Z")
    if shutil.which("mmdebstrap") is None:
        raise PrerequisiteError("mmdebstrap is missing; install it with: sudo apt-get install mmdebstrap")
    asked = packages("base", name)
    with tempfile.TemporaryDirectory(prefix="agentbench-images-") as scratch:
        file = Path(scratch) / "root.tar"
        command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(asked)}", *_archive(snapshot, file)]
        variables = {**os.environ, "SOURCE_DATE_EPOCH": epoch()}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        if done.returncode != 0:
            raise PrerequisiteError(f"mmdebstrap could not make {SUITE}: {last_line(done.stderr)}")
        with file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        version = f"{SUITE} {snapshot}" if snapshot else SUITE
        labels = {RECIPE: digest(asked), CONTENT: content, VERSION: version}
        changes = [f'LABEL "{key}"="{value}"' for key, value in labels.items()]
        tag = f"debian{_own(name)}"
        with asking(f"importing agentbench/{tag}"):
            engine().import_image_from_file(
                str(file), repository=f"agentbench/{tag}", tag="latest", changes=[*changes, 'CMD ["bash"]']
            )
    return next(image for image in images() if image.name == f"agentbench/{tag}:latest")


def build(name: str, *, base_image: str | None = None, wheels: Path | None = None, anew: bool = False) -> Image:
    """Build an image, and what it stands on, unless they are here with the same recipe; who comes second waits.

    Args:
        name: A folder of the Dockerfiles.
        base_image: What to begin with; by default what `AGENTBENCH_BASE_IMAGE` names, else Debian as `debian` made it
            or can make it, else Debian from a registry.
        wheels: A folder of wheels to install from, looked into even if nothing else changed. By default, and only if
            there is something to build, the folder that `AGENTBENCH_WHEELS` names, else wherever pip looks.
        anew: Build it, and all but the Debian that it stands on, even if nothing changed.

    Raises:
        UsageError: There is no such image, or no such folder.
        PrerequisiteError: The base image or a wheel cannot be had.
    """
    _know(name)
    tag = f"base{_own(name)}"
    begun = _begin(name, base_image)
    with _making(tag):
        base = _base(name, tag, begun, anew=anew)
    extra = extras(name)
    if extra is not None:
        tag = f"python{_own(name, extra)}"
        with _making(tag):
            base = _python(tag, extra, base, wheels, anew=anew)
    if name in ("base", "python"):
        return base
    parts = {"Dockerfile": dockerfile(name), **(source() if extra is not None else {})}
    recipe = digest(hashes(parts), base.content)
    labels = {RECIPE: recipe, CONTENT: recipe, VERSION: _version(name)}
    with _making(name):
        return (None if anew else _here(name, recipe)) or _made(_run(parts, base.id, labels, tag=name, anew=anew))


def find(name: str) -> Image | None:
    """Return the image of this name, if it is here."""
    return next((image for image in images() if image.name == f"agentbench/{name}:latest"), None)


def images() -> list[Image]:
    """List our images."""
    with asking("listing images"):
        found = engine().images(filters={"label": CONTENT})
    return sorted((_image(tag, each) for each in found for tag in each["RepoTags"] or ["<none>"]), key=lambda i: i.name)


def root(image: Image) -> str:
    """Return a hash of an image's file system: equal hashes, equal bytes, whenever it was built."""
    with asking("looking at an image"):
        return digest(engine().inspect_image(image.id)["RootFS"]["Layers"])


def prune() -> list[Image]:
    """Remove our images that have no name any more, because a newer one took it, and return them.

    One that a container uses, or another image stands on, stays.
    """
    seen: dict[str, Image] = {}
    gone = [""]
    while gone:  # One image may keep another, or take it along.
        nameless = {image.id: image for image in images() if image.name.startswith("<none>")}
        seen |= nameless
        gone = [each for each in nameless if _remove(each)]
    return [image for image in seen.values() if image.id not in nameless]


def _know(name: str) -> None:
    if name not in names():
        raise UsageError(f"there is no image {name!r}; known: {', '.join(names())}")


def _remove(image: str) -> bool:
    import docker.errors

    with asking("removing an image"):
        try:
            engine().remove_image(image)
        except docker.errors.APIError as error:
            if error.status_code not in (404, 409):
                raise
            return False
    return True


def _image(tag: str, each: Mapping[str, Any]) -> Image:
    known = each["Labels"]
    version, recipe, content = (known.get(label, "") for label in (VERSION, RECIPE, CONTENT))
    lists = (json.loads(known.get(label, "{}")) for label in (PACKAGES, WHEELS))
    return Image(tag, each["Id"], version, recipe, content, round(each["Size"] / 2**20, 1), *lists)


def _making(tag: str) -> AbstractContextManager[None]:
    """Let one at a time look for an image and make it, of all that this user runs here."""
    return locked(Path(tempfile.gettempdir()) / f"agentbench-{os.getuid()}" / f"{tag}.lock")


def _here(name: str, recipe: str) -> Image | None:
    found = find(name)
    return found if found is not None and found.recipe == recipe else None


def _version(name: str) -> str:
    from agentbench.core.registry import environments

    entry = environments().get(name)
    return agentbench.__version__ if entry is None else str(entry.version)


def _own(name: str, extra: str = "") -> str:
    """Return the suffix of what is made for one environment alone, because it wants packages or an extra of its own."""
    return f"-{name}" if extra or packages("base", name) != packages("base") else ""


def _archive(snapshot: str | None, file: Path) -> list[str]:
    """Return what mmdebstrap shall make from where, in its order: suite, target, sources."""
    if snapshot is None:
        return [SUITE, str(file)]
    mirror = os.environ.get(SNAPSHOTS, "http://snapshot.debian.org/archive").rstrip("/")
    sources = [f"deb {mirror}/debian/{snapshot} {suite} main" for suite in (SUITE, f"{SUITE}-updates")]
    sources.append(f"deb {mirror}/debian-security/{snapshot} {SUITE}-security main")
    return ['--aptopt=Acquire::Check-Valid-Until "false"', SUITE, str(file), *sources]


class _Beginning(NamedTuple):
    """What the base begins with."""

    id: str
    content: str
    network: str
    """Where packages that it lacks come from."""


def _begin(name: str, base_image: str | None) -> _Beginning:
    chosen = base_image or os.environ.get(BASE_VARIABLE)
    if chosen is None:
        tag = f"debian{_own(name)}"
        with _making(tag):
            here = _here(tag, digest(packages("base", name)))
            if here is None and shutil.which("mmdebstrap"):
                here = debian(name)
        if here is not None:
            return _Beginning(here.id, here.content, "none")
    fetched = _fetch(chosen or REGISTRY_BASE)
    return _Beginning(fetched, fetched, "host")


def _fetch(reference: str) -> str:
    """Return the id of somebody else's image, pulling it where it is not here."""
    api = engine()
    import docker.errors

    with asking(f"pulling {reference}"):
        try:
            return str(api.inspect_image(reference)["Id"])
        except docker.errors.ImageNotFound:
            repository, tag = docker.utils.parse_repository_tag(reference)
        try:
            api.pull(repository, tag=tag or "latest")
            return str(api.inspect_image(reference)["Id"])
        except docker.errors.APIError as error:
            said = " ".join(str(error.explanation).split())
            raise PrerequisiteError(
                f"{reference} is not here and cannot be pulled: {said}; install mmdebstrap to do without a registry"
            ) from error


def _base(name: str, tag: str, begun: _Beginning, *, anew: bool) -> Image:
    """Make what an environment stands on: the base, with the packages of its own where it has some."""
    asked = packages("base", name)
    parts = {"Dockerfile": dockerfile("base")}
    recipe = digest(hashes(parts), asked, begun.content)
    found = _here(tag, recipe)
    if found is not None and not anew:
        return found
    arguments = {"PACKAGES": " ".join(asked)}
    raw = _run(parts, begun.id, {}, arguments=arguments, network=begun.network, anew=anew)
    known = _installed(raw)
    labels = {RECIPE: recipe, CONTENT: digest(recipe, known), VERSION: agentbench.__version__}
    labelled = {"Dockerfile": f"FROM {raw}".encode()}
    return _made(_run(labelled, raw, labels | {PACKAGES: json.dumps(known), WHEELS: "{}"}, tag=tag))


def _installed(image: str) -> dict[str, str]:
    """Ask an image which Debian packages it has.

    Raises:
        PrerequisiteError: It does not say.
    """
    with DockerSandbox(image, Limits(memory=128, disk=16, output=2**20)) as sandbox:
        done = sandbox.exec("dpkg-query --show")
    if done.exit_code != 0:
        raise PrerequisiteError(f"the base does not list its packages of Debian: {last_line(done.output)}")
    named = (line.partition("\t") for line in sorted(done.output.splitlines()))
    return {name: version for name, tab, version in named if tab}


def _python(tag: str, extra: str, base: Image, house: Path | None, *, anew: bool) -> Image:
    """Make what environments of these wheels stand on."""
    parts = {"Dockerfile": dockerfile("python"), **requirements(extra)}
    recipe = digest(hashes(parts), base.content)
    found = _here(tag, recipe)
    if found is not None and house is None and not anew:
        return found
    named = os.environ.get(WHEELS_VARIABLE)
    collected = wheels(requirements(extra), house or (Path(named) if named else None))
    known = {Path(path).name: value for path, value in hashes(collected).items()}
    content = digest(recipe, known)
    if found is not None and found.content == content and not anew:
        return found
    labels = {RECIPE: recipe, CONTENT: content, VERSION: agentbench.__version__, WHEELS: json.dumps(known)}
    made = _made(_run({**parts, **collected}, base.id, labels, tag=tag, anew=anew))
    _sweep(base)
    return made


def _sweep(base: Image) -> None:
    """Remove the stage of a build that only its result was copied from; it has the labels of its base, and no name."""
    with asking("looking for stages of a build"):
        stages = engine().images(filters={"dangling": True, "label": f"{CONTENT}={base.content}"})
    for stage in stages:
        _remove(stage["Id"])


def _run(
    parts: Parts,
    base: str,
    labels: Mapping[str, str],
    *,
    tag: str | None = None,
    arguments: Mapping[str, str] | None = None,
    network: str = "none",
    anew: bool = False,
) -> str:
    """Let the engine build, and return the id."""
    title = f"agentbench/{tag}" if tag else "an image"
    with asking(f"building {title}"):
        lines = engine().build(
            fileobj=pack(parts),
            custom_context=True,
            tag=tag and title,
            rm=True,
            forcerm=True,
            nocache=anew,
            network_mode=network,
            buildargs={"BASE_IMAGE": base, "SOURCE_DATE_EPOCH": epoch(), **(arguments or {})},
            labels=dict(labels),
            decode=True,
        )
        made = ""
        for line in lines:
            if "error" in line:
                raise PrerequisiteError(f"building {title}: {' '.join(str(line['error']).split())}")
            made = line.get("aux", {}).get("ID", made)
    return str(made)


def _made(image: str) -> Image:
    """Return the image of this id; somebody else may have taken its name by now."""
    return next(each for each in images() if each.id == image)
