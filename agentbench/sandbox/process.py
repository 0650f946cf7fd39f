"""A sandbox of namespaces alone, for machines without a container engine: bubblewrap (Alexander Larsson and others).

It is weaker than a container, and its record says so: memory is limited per process and not in all, CPU is not limited,
no filter of system calls stands before the kernel, and the programs are those of this machine's `/usr`.
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentbench.core.errors import Failure, PrerequisiteError
from agentbench.sandbox.base import Limits
from agentbench.sandbox.jail import Jail
from agentbench.sandbox.owner import lives, owner
from agentbench.sandbox.shell import BASH, ENVIRONMENT, WARDEN, WORKSPACE, Channel

WIRES = "/run/agentbench"
"""Where the named pipes of the wires lie, inside."""

VISIBLE = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
"""What of this machine can be read inside."""

UNPRIVILEGED = 65534
"""The user that root becomes before anything starts: limits on processes do not bind root."""

FOLDER = "agentbench-sandbox-"
"""How the folders of the wires are named; their owner follows."""

START_SECONDS = 30.0
CLOSE_SECONDS = 5.0


class ProcessSandbox(Jail):
    """A sandbox of bubblewrap's namespaces: own processes, network (none), mounts and users.

    Args:
        limits: What it may use; `cpus`, `network`, `root` and `user` cannot be chosen here.
        readable: Further paths of this machine that can be read inside, at the same place.
        hidden: Folders that are empty inside, but for what is readable in them.

    Raises:
        PrerequisiteError: Bubblewrap is missing, or may not make namespaces here.
    """

    def __init__(
        self, limits: Limits | None = None, *, readable: Sequence[str] = (), hidden: Sequence[str] = ()
    ) -> None:
        super().__init__(limits or Limits())
        problem = missing_bubblewrap()
        if problem:
            raise PrerequisiteError(problem)
        self._readable = tuple(readable)
        self._hidden = tuple(hidden)
        self._wires = 0

    def _boot(self) -> None:
        self._folder_out = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{owner()}-"))
        if os.geteuid() == 0:
            os.chown(self._folder_out, UNPRIVILEGED, UNPRIVILEGED)
        info, told = os.pipe()
        wires = {str(self._folder_out): WIRES}
        command = jail_command(self.limits, self._readable, wires, told, hidden=self._hidden)
        try:
            self._process = subprocess.Popen(
                [*command, *BASH, str(int(self.limits.lifetime))],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(told,),
                **_drop_root(),
            )
        finally:
            os.close(told)
        with os.fdopen(info) as stream:
            said = stream.read()
        self._init = int(json.loads(said)["child-pid"]) if said else 0
        if not said:
            raise Failure("sandbox", f"bubblewrap did not start: {self._why_dead()}")
        self._order(f"{WARDEN}\0", end="")

    def _open(self, folder: str) -> Channel:
        self._wires += 1
        name = str(self._wires)
        pipes = [self._folder_out / f"{name}.{end}" for end in ("in", "out")]
        for pipe in pipes:
            os.mkfifo(pipe, 0o600)
            if os.geteuid() == 0:
                os.chown(pipe, UNPRIVILEGED, UNPRIVILEGED)
        outputs = os.open(pipes[1], os.O_RDONLY | os.O_NONBLOCK)
        limits = self.limits
        self._order(f"{WIRES}/{name}:{limits.processes}:{limits.memory * 1024}:{folder}")
        try:
            inputs = _open_when_read(pipes[0], time.monotonic() + START_SECONDS)
        except TimeoutError:
            os.close(outputs)
            raise Failure("sandbox", f"no shell starts in the sandbox ({self._why_dead()})") from None
        return Pipes(inputs, outputs)

    def _order(self, line: str, end: str = "\n") -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((line + end).encode(errors="surrogateescape"))
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise self._broken("its warden is gone") from None

    def _destroy(self) -> None:
        if not hasattr(self, "_process"):
            return
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in (self._init, self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
            self._process.wait()
        self._process.stderr.close()
        shutil.rmtree(self._folder_out, ignore_errors=True)

    def _why_dead(self) -> str:
        code = self._process.poll()
        if code is None:
            return "its processes run"
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").strip()
        return f"exit code {code} {said[-300:]}".strip()

    def record(self) -> dict[str, Any]:
        """Return what isolation this sandbox gives, and what it does not."""
        limits = self.limits
        return {
            "kind": "process",
            "image": None,
            "digest": None,
            "isolation": "bubblewrap namespaces; memory limited per process only, CPU not limited, no seccomp filter",
            "network": "none",
            "root": "read-only",
            "user": str(UNPRIVILEGED if os.geteuid() == 0 else os.geteuid()),
            "capabilities": "none",
            "memory_mib": limits.memory,
            "cpus": None,
            "processes": limits.processes,
            "disk_mib": limits.disk,
            "lifetime_s": limits.lifetime,
            "readable": [*VISIBLE, *self._readable],
            "hidden": _covered(self._hidden, self._readable),
        }


def stale_folders() -> list[Path]:
    """Return folders of wires whose owner was killed; nothing else is left of a process sandbox then."""
    folders = Path(tempfile.gettempdir()).glob(f"{FOLDER}*")
    return [each for each in folders if not lives(each.name.removeprefix(FOLDER).rpartition("-")[0])]


def jail_command(
    limits: Limits,
    readable: Sequence[str],
    bound: dict[str, str],
    told: int | None = None,
    *,
    hidden: Sequence[str] = (),
) -> list[str]:
    """Return the `bwrap` command line before the program that it runs.

    Args:
        limits: Sizes of the workspace and `/tmp`.
        readable: Paths that can be read inside, at the same place.
        bound: Folders of pipes: where they are, and where they shall be seen.
        told: File descriptor that hears of the first process inside.
        hidden: Folders that are empty inside, but for what is readable in them.
    """
    command = ["bwrap", "--unshare-all", "--new-session", "--as-pid-1", "--clearenv", "--uid", "1000", "--gid", "1000"]
    for path in (*VISIBLE, *readable):
        if Path(path).is_symlink():
            command += ["--symlink", str(Path(path).readlink()), path]
        else:
            command += ["--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for folder, size in {WORKSPACE: limits.disk, "/tmp": max(1, limits.disk // 4), "/dev/shm": 16}.items():
        command += ["--size", str(size * 2**20), "--tmpfs", folder]
    covers = ["/tmp", *_covered(hidden, readable)]
    for path in covers[1:]:
        command += ["--size", "4096", "--tmpfs", path]
    for path in readable:
        if _within(path, covers):  # what was mounted there lies below what covers it
            command += ["--ro-bind-try", path, path]
    for path in covers[1:]:
        command += ["--remount-ro", path]
    for there, here in bound.items():
        command += ["--bind", there, here]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE]
    for name, value in {**ENVIRONMENT, "PATH": "/usr/local/bin:/usr/bin:/bin"}.items():
        command += ["--setenv", name, value]
    return command if told is None else [*command, "--info-fd", str(told)]


def _covered(hidden: Sequence[str], readable: Sequence[str]) -> list[str]:
    """Return what would be seen inside if it were not hidden."""
    return [path for path in hidden if _within(path, (*VISIBLE, *readable))]


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def missing_bubblewrap() -> str | None:
    """Say why namespaces cannot be made here and what to do, or None if they can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing; install it with: sudo apt-get install bubblewrap"
    tried = subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
        **_drop_root(),
    )
    if tried.returncode == 0:
        return None
    said = tried.stderr.strip()
    return f"bubblewrap may not make namespaces here ({said}); allow them: sysctl kernel.unprivileged_userns_clone=1"


def _drop_root() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}


def _open_when_read(pipe: Path, deadline: float) -> int:
    """Open a named pipe for writing as soon as somebody reads it."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(0.002)


class Pipes:
    """A wire of two named pipes.

    Args:
        inputs: Descriptor of the pipe that the program reads.
        outputs: Descriptor of the pipe that it writes; both do not block.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._closed = False

    def send(self, data: bytes, deadline: float) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            if not select.select((), (self._inputs,), (), max(0.0, deadline - time.monotonic()))[1]:
                raise TimeoutError
            rest = rest[os.write(self._inputs, rest) :]

    def receive(self, deadline: float) -> bytes:
        """Return what came; nothing once every writer is gone."""
        if not select.select((self._outputs,), (), (), max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        return os.read(self._outputs, 2**18)

    def close(self) -> None:
        """Close both."""
        if not self._closed:
            self._closed = True
            os.close(self._inputs)
            os.close(self._outputs)
