"""What containers and process jails have in common: a warden, one shell, and a service that moves files."""

import errno
import io
import posixpath
import shlex
import tarfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

from agentbench.core.errors import Failure, UsageError
from agentbench.core.plain import plain
from agentbench.sandbox.base import Limits, Result
from agentbench.sandbox.shell import SERVICE, SHELL, WORKSPACE, Channel, Ended, Shell

GRACE_SECONDS = 15.0
"""How much longer than the warden the owner waits before it ends the whole sandbox."""

FILE_SECONDS = 60.0
"""How long moving files may take."""

KILLED = 137
"""What bash calls a process that SIGKILL ended."""

FOREIGN = 3
"""The first exit code that neither tar nor our own commands use."""

NOT_SO = 2
"""The exit code of `_where` if its condition does not hold."""

NO_FILE = "there is no regular file of this name in the sandbox"

TIME_UP = 124
"""What `timeout` calls a command that it ended."""


class Jail(ABC):
    """A sandbox but for the machine under it: subclasses say how that starts, is reached inside, and dies."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.workspace = WORKSPACE
        self._state = "new"
        self._shell: Shell | None = None
        self._service: Shell | None = None
        self._folder = WORKSPACE

    @abstractmethod
    def _boot(self) -> None:
        """Start the machine with its warden; raise `Failure` if it cannot be."""

    @abstractmethod
    def _open(self, folder: str) -> Channel:
        """Start a bash for a driver inside. Raises `Failure`."""

    @abstractmethod
    def _order(self, line: str) -> None:
        """Send the warden a line. Raises `Failure`."""

    @abstractmethod
    def _destroy(self) -> None:
        """End the machine, whatever state it is in. Must not raise."""

    @abstractmethod
    def _why_dead(self) -> str:
        """Say what became of the machine, for a message."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return what isolation this sandbox gives."""

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._state == "closed":
            raise UsageError("this sandbox was closed; one sandbox serves one episode")
        if self._state == "new":
            self._state = "running"
            try:
                self._boot()
                self._shell = self._new_shell()
            except BaseException:
                self.close()
                raise

    def exec(self, command: str, *, timeout: float = 60.0) -> Result:
        """Run a command in the sandbox's one shell."""
        if "\0" in command:
            raise UsageError("a command holds a NUL character, which no shell can read")
        self.start()
        began = time.monotonic()
        ended = self._run(command.encode(errors="surrogateescape"), timeout)
        if not ended.began:  # Something killed the shell while it was idle.
            ended = self._run(command.encode(errors="surrogateescape"), timeout)
        if not ended.began:
            raise self._broken("its shell does not start any more")
        seconds = time.monotonic() - began
        timed_out = ended.exit_code is None and seconds >= timeout
        code = ended.exit_code if ended.exit_code is not None else TIME_UP if timed_out else KILLED
        self._folder = ended.folder or self._folder
        text = ended.output.bytes("\n[... {} bytes left out ...]\n").decode(errors="replace")
        return Result(code, plain(text), ended.output.omitted, timed_out, ended.over, seconds)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, data in files.items():
                member = tarfile.TarInfo(self._absolute(path)[1:])
                member.size, member.mtime, member.mode = len(data), int(time.time()), 0o644
                tar.addfile(member, io.BytesIO(data))
        self._unpack("/", archive.getvalue(), "--unlink-first --recursive-unlink")

    def create(self, path: str, data: bytes) -> None:
        """Write a file where nothing is."""
        absolute = self._absolute(path)
        name, folder = shlex.quote(absolute), shlex.quote(posixpath.dirname(absolute))
        if not self._pour(f"! -e {name} && ! -L {name}", f"mkdir -p -- {folder} &&", name, data):
            raise FileExistsError(errno.EEXIST, "something of this name is in the sandbox", path)

    def overwrite(self, path: str, data: bytes) -> None:
        """Write into a file that is there."""
        name = shlex.quote(self._absolute(path))
        if not self._pour(f"-f {name}", "", name, data):
            raise FileNotFoundError(errno.ENOENT, NO_FILE, path)

    def get(self, path: str, *, most: int = 16 * 2**20) -> bytes:
        """Return the content of one regular file."""
        name = shlex.quote(self._absolute(path))
        code, data, whole = self._serve(_where(f"-f {name}", f"head -c {most + 1} -- {name}"), most=most + 1)
        if code == NOT_SO:
            raise FileNotFoundError(errno.ENOENT, NO_FILE, path)
        if code != 0:
            raise PermissionError(errno.EACCES, "the sandbox's user cannot read it", path)
        if len(data) > most or not whole:
            raise OSError(errno.EFBIG, f"the file is larger than {most} bytes", path)
        return data

    def snapshot(self) -> bytes:
        """Return the workspace as a tar archive."""
        most = 2 * self.limits.disk * 2**20
        code, data, whole = self._serve(f"tar --create --sparse --one-file-system -C {WORKSPACE} .", most=most)
        if not whole:
            raise OSError(errno.EFBIG, f"the workspace makes an archive of more than {most} bytes")
        if code not in (0, 1):  # 1: a file changed while it was read.
            raise OSError(errno.EIO, "the workspace cannot be read as a whole")
        return data

    def restore(self, snapshot: bytes) -> None:
        """Unpack a snapshot over the workspace."""
        self._unpack(WORKSPACE, snapshot, "--overwrite-dir")

    def close(self) -> None:
        """End it with everything in it."""
        if self._state == "running":
            for shell in (self._shell, self._service):
                if shell is not None:
                    with suppress(OSError):
                        shell.close()
            self._destroy()
        self._state = "closed"

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _run(self, command: bytes, timeout: float) -> Ended:
        """Run a command in the shell, with the warden armed; leave no shell behind that cannot go on."""
        if self._shell is None:
            self._shell = self._new_shell()
        self._order(f"{max(timeout, 0.01):.3f}")
        try:
            ended = self._shell.run(
                command, most=self.limits.output, deadline=time.monotonic() + timeout + GRACE_SECONDS
            )
        except TimeoutError:
            raise self._broken("it did not end a command in time") from None
        self._order("")
        if ended.over:
            self._shell.close()
            self._shell = None
        return ended

    def _pour(self, condition: str, before: str, name: str, data: bytes) -> bool:
        """Write into a file as any program inside would; False if the condition does not hold."""
        command = f"{{ {before} cat > {name}; }} 2>&1"
        code, said, _ = self._serve(_where(condition, command), payload=data, most=4096)
        if code not in (0, NOT_SO):
            raise OSError(errno.EIO, plain(said.decode(errors="replace").strip()) or "the file cannot be written")
        return code == 0

    def _unpack(self, folder: str, archive: bytes, options: str) -> None:
        if not archive:
            raise OSError(errno.EINVAL, "an empty archive cannot be unpacked")
        command = f"tar --extract --no-same-owner {options} -C {folder} 2>&1"
        code, said, _ = self._serve(command, payload=archive, most=4096)
        if code != 0:
            raise OSError(errno.EIO, plain(said.decode(errors="replace").strip()) or "the archive cannot be unpacked")

    def _serve(self, command: str, *, payload: bytes | None = None, most: int) -> tuple[int, bytes, bool]:
        """Run a command of the service; return its exit code, its output, and whether that is all of it.

        The payload is its input. What it does not read is read after it: else it would stand on the wire as commands.
        What runs inside can kill the service, or leave no room for its processes (an exit code that is none of ours nor
        of tar): then everything is swept, and it is tried again.
        """
        if payload is not None:
            command = f"head -c {len(payload)} | {{ {command}; code=$?; cat >/dev/null; exit $code; }}"
        self.start()
        for last in (False, True):
            try:
                if self._service is None:
                    self._service = Shell(self._open(WORKSPACE), SERVICE)
                deadline = time.monotonic() + FILE_SECONDS
                ended = self._service.run(command.encode(), payload=payload or b"", most=most, deadline=deadline)
            except (TimeoutError, Failure):
                if last:
                    raise self._broken("files cannot be moved any more") from None
                ended = None
            if ended is None or ended.exit_code != 0:
                self._drop_service()  # If it was killed, the payload may not have been read to its end.
            if ended is not None and ended.exit_code is not None and (last or ended.exit_code < FOREIGN):
                return ended.exit_code, ended.output.bytes(), not ended.output.omitted
            self._sweep()
        raise self._broken("files cannot be moved any more")

    def _drop_service(self) -> None:
        if self._service is not None:
            self._service.close()
            self._service = None

    def _new_shell(self) -> Shell:
        """Start a shell, and wait until it answers: its start shall not use up the time of a command."""
        for _ in range(2):
            with suppress(Failure, TimeoutError), ExitStack() as stack:
                shell = Shell(self._open(self._folder), SHELL)
                stack.callback(shell.close)
                if shell.run(b":", most=0, deadline=time.monotonic() + GRACE_SECONDS).began:
                    stack.pop_all()
                    return shell
            self._sweep()
        raise self._broken("no shell starts in it")

    def _sweep(self) -> None:
        """Have every process inside killed."""
        self._order("0.001")
        time.sleep(0.1)

    def _broken(self, what: str) -> Failure:
        why = self._why_dead()
        self.close()
        return Failure("sandbox", f"the sandbox broke: {what} ({why})")

    def _absolute(self, path: str) -> str:
        if "\0" in path or not path:
            raise UsageError(f"{path!r} is no path")
        return posixpath.normpath(posixpath.join(WORKSPACE, path)).replace("//", "/")


def _where(condition: str, command: str) -> str:
    """Return a command that runs where a condition of bash's `[[` holds, and ends with `NOT_SO` elsewhere."""
    return f"if [[ {condition} ]]; then {command}; else no() {{ return {NOT_SO}; }}; no; fi"
