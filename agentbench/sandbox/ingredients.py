"""What goes into an image: Dockerfiles, lists of Debian's packages, Python's wheels, and the source that is running.

Ingredients are bytes by their path in the build context. Nothing here speaks to an engine.
"""

import hashlib
import importlib.util
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import requires
from pathlib import Path, PurePosixPath
from typing import Any, Final

import agentbench
from agentbench.core.errors import PrerequisiteError, UsageError

Parts = Mapping[str, bytes]

PYTHON: Final = (3, 11)
"""The Python of the base."""

LEFT_OUT: Final = frozenset(("__pycache__", "_dockerfiles", "bundled", "recipes"))
"""Folders of the source that no image needs."""

HOME: Final = "source/opt/agentbench"
"""Where the source lies in the build context; an image has it in `/opt/agentbench`."""


def folder() -> Path:
    """Return the folder of the Dockerfiles: the installed one, or the checkout's."""
    package = Path(agentbench.__file__).parent
    installed = package / "_dockerfiles"
    return installed if installed.is_dir() else package.parent / "dockerfiles"


def names() -> list[str]:
    """Return what can be built."""
    return sorted(file.parent.name for file in folder().glob("*/Dockerfile"))


def epoch() -> str:
    """Return the time that new files of an image have, in seconds since 1970: `SOURCE_DATE_EPOCH`, else early in 1980.

    Zip archives, and so wheels, know no earlier one (reproducible-builds.org/specs/source-date-epoch).

    Raises:
        UsageError: The variable is no number.
    """
    said = os.environ.get("SOURCE_DATE_EPOCH", "315532800")
    if not said.isdecimal():
        raise UsageError(f"SOURCE_DATE_EPOCH is {said!r}, expected seconds since 1970")
    return said


def dockerfile(name: str) -> bytes:
    """Return a Dockerfile."""
    return (folder() / name / "Dockerfile").read_bytes()


def packages(*folders: str) -> list[str]:
    """Return the Debian packages that these folders ask for."""
    files = (folder() / each / "packages.txt" for each in folders)
    return sorted({word for file in files if file.is_file() for word in file.read_text(encoding="utf-8").split()})


def extras(name: str) -> str | None:
    """Return the extra of our distribution that an image asks for, perhaps an empty one; None: it has no Python."""
    found = re.search(r"^ARG EXTRAS=(\S*)", dockerfile(name).decode(), re.MULTILINE)
    return found and found[1]


def requirements(extra: str) -> Parts:
    """Return what our distribution needs with one extra, and the versions that are taken."""
    needs = []
    for line in requires("agentbench-gym") or ():
        need, _, marker = line.partition(";")
        if not marker or (extra and re.search(rf"extra == ['\"]{extra}['\"]", marker)):
            needs.append(need.strip())
    pins = (folder() / "constraints.txt").read_bytes()
    return {"wheels/requirements.txt": "\n".join(sorted(needs)).encode(), "wheels/constraints.txt": pins}


def source() -> Parts:
    """Return the source that is running: ours, and that of the environments."""
    spec = importlib.util.find_spec("agentbench_envs")
    environments = (spec.submodule_search_locations or ()) if spec else ()
    ours = dict(_files(Path(agentbench.__file__).parent, "agentbench"))
    return ours | {path: data for place in environments for path, data in _files(Path(place), "agentbench_envs")}


def wheels(needed: Parts, house: Path | None) -> Parts:
    """Collect the wheels of some `requirements` for the base's Python.

    Args:
        needed: The requirements.
        house: A folder of wheels to choose from, without any network; None: wherever pip is configured to look.

    Raises:
        PrerequisiteError: They cannot be had.
        UsageError: There is no such folder.
    """
    if house is not None and not house.is_dir():
        raise UsageError(f"there is no folder of wheels {house}")
    with tempfile.TemporaryDirectory(prefix="agentbench-images-") as scratch:
        for path, data in needed.items():
            Path(scratch, Path(path).name).write_bytes(data)
        target = Path(scratch, "wheels")
        asked = ["-r", str(Path(scratch, "requirements.txt")), "-c", str(Path(scratch, "constraints.txt"))]
        where = ["--no-index", "--find-links", str(house.resolve())] if house else []
        command = [sys.executable, "-m", "pip", *_collect(target), *asked, *where]
        variables = {**os.environ, "SOURCE_DATE_EPOCH": epoch(), "PYTHONHASHSEED": "0"}
        if house:  # A configured address or folder must not step in where the house lacks something.
            variables = {name: value for name, value in variables.items() if not name.startswith("PIP_")}
            variables["PIP_CONFIG_FILE"] = os.devnull
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        if done.returncode != 0:
            raise PrerequisiteError(f"pip cannot collect the wheels: {_complaint(done.stderr)}; {_advice(house)}")
        return {f"wheels/{file.name}": file.read_bytes() for file in sorted(target.glob("*.whl"))}


def last_line(said: str) -> str:
    """Return the last line that a program said."""
    return (said.strip().splitlines() or ["it said nothing"])[-1]


def pack(parts: Parts) -> io.BytesIO:
    """Make a tar archive of a build context; equal parts give equal bytes."""
    folders = {str(parent) for path in parts for parent in PurePosixPath(path).parents} - {"."}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(folders | parts.keys()):
            member = tarfile.TarInfo(path)
            member.mtime = int(epoch())
            if path in folders:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
            else:
                member.size, member.mode = len(parts[path]), 0o644
                tar.addfile(member, io.BytesIO(parts[path]))
    stream.seek(0)
    return stream


def hashes(parts: Parts) -> dict[str, str]:
    """Return the SHA-256 of every part."""
    return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(parts.items())}


def digest(*values: Any) -> str:
    """Return a hash of something that JSON can say."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _files(root: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root)
        if file.is_file() and LEFT_OUT.isdisjoint(path.parts):
            yield f"{HOME}/{name}/{path.as_posix()}", file.read_bytes()


def _collect(target: Path) -> list[str]:
    """Return pip's verb: `wheel` also compiles what has no wheel, which it can for its own Python and system only."""
    if sys.version_info[:2] == PYTHON and sys.platform == "linux":
        return ["wheel", "--wheel-dir", str(target)]
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    systems = [word for glibc in ("_2_28", "2014") for word in ("--platform", f"manylinux{glibc}_{machine}")]
    versions = ["--python-version", ".".join(map(str, PYTHON)), "--only-binary=:all:"]
    return ["download", "--dest", str(target), *versions, *systems]


def _complaint(said: str) -> str:
    """Return the line in which pip names what it lacks; its last one only says that there is more to read."""
    lines = (line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: "))
    return next((line for line in lines if not line.startswith("Ignored")), last_line(said))


def _advice(house: Path | None) -> str:
    return f"put what is missing into {house}" if house else "name a folder of them with --wheels"
