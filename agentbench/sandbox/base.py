"""What a sandbox is: a place where commands that nobody has read may run.

    with sandbox:                                    # start ... close
        sandbox.put({"notes.txt": b"hello"})         # files go in
        result = sandbox.exec("wc -c < notes.txt")   # one persistent bash: cd, export and functions stay
        data = sandbox.get("notes.txt")              # one regular file comes out
        state = sandbox.snapshot()                   # the whole workspace, for `restore` in a fresh sandbox

Deny by default: no network, no capabilities, a read-only root, an unprivileged user, and limits on memory, CPU,
processes, disk and lifetime. Whatever runs inside may kill, fill or forge everything that *it* can reach; a sandbox
answers all the same, within its limits and in time. So nothing that decides about reward may run where an agent ran:
grade in a fresh sandbox, from a snapshot.

What the work inside does wrong is a `Result`; what the machinery does wrong (engine gone, container dead) is a
`Failure` of cause `sandbox`, which the harness retries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self

from agentbench.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox may use. Every field stands in the record of the episode."""

    memory: int = 1024
    """MiB, the workspace and `/tmp` included, for they are memory too; no swap."""
    cpus: float = 1.0
    """Cores."""
    processes: int = 256
    """Processes and threads at once."""
    disk: int = 512
    """MiB of the workspace; `/tmp` has a quarter of it."""
    lifetime: float = 3600.0
    """Seconds until the sandbox ends by itself, whoever has forgotten it."""
    output: int = 64 * 1024
    """Bytes of a command's output that are kept: half of them from its head, half from its tail."""
    network: Literal["none", "bridge"] = "none"
    """`bridge` opens the engine's network; only for preparing images."""
    root: Literal["read-only", "writable"] = "read-only"
    """`writable` where an image keeps what must change outside the workspace."""
    user: str = "1000:1000"
    """Numeric user and group that commands run as."""

    def __post_init__(self) -> None:
        if self.memory < 1.25 * self.disk + 64:
            raise UsageError(
                f"a sandbox of {self.memory} MiB memory cannot hold {self.disk} MiB of files: "
                f"they lie in memory; expected memory >= 1.25 * disk + 64"
            )


class Result(NamedTuple):
    """What became of a command."""

    exit_code: int
    """As bash knows it; 124 if its time was up, 137 if the shell was killed under it."""
    output: str
    """Standard output and error together, as plain text: no control characters, undecodable bytes as U+FFFD."""
    omitted: int = 0
    """Bytes that were left out of the middle; where, a line of the output says."""
    timed_out: bool = False
    """Its time was up; every process of the sandbox was killed."""
    restarted: bool = False
    """The shell ended with this command; the next command meets a new one, in the same folder."""
    seconds: float = 0.0


class Sandbox(Protocol):
    """A place for untrusted commands; one serves one episode and is never used again.

    Every method raises `Failure` (cause `sandbox`) when the machinery breaks.
    """

    limits: Limits
    workspace: str
    """The absolute path, inside, of the folder that commands start in and that may be written."""

    def start(self) -> None:
        """Start it. Everything else starts it as well, if that was not done; starting twice does nothing."""

    def exec(self, command: str, *, timeout: float = 60.0) -> Result:
        """Run a command in the sandbox's one shell; it has no standard input.

        Args:
            command: Anything that bash can evaluate.
            timeout: Seconds; then every process inside is killed, in the sandbox itself.

        Raises:
            UsageError: The command holds a NUL character.
        """

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files, making folders as needed; what stands there is replaced.

        Args:
            files: Contents by path; relative paths begin at the workspace.

        Raises:
            OSError: A file cannot be written: no space, or no permission. A part of it may be left there.
        """

    def create(self, path: str, data: bytes) -> None:
        """Write one file where nothing is, making folders as needed.

        Raises:
            FileExistsError: Something is there: a file, a folder, or a link, wherever it leads.
            OSError: It cannot be written. A part of it may be left there.
        """

    def overwrite(self, path: str, data: bytes) -> None:
        """Write one regular file anew: unlike with `put`, its mode stays, and a link to it stays a link.

        Raises:
            FileNotFoundError: There is no regular file of that name.
            OSError: It cannot be written. A part of it may be left there.
        """

    def get(self, path: str, *, most: int = 16 * 2**20) -> bytes:
        """Return the content of one regular file. Links are followed inside, never out here.

        Args:
            path: The file; relative paths begin at the workspace.
            most: The largest size in bytes that is accepted.

        Raises:
            FileNotFoundError: There is no regular file of that name.
            OSError: It is larger than `most`, or cannot be read.
        """

    def snapshot(self) -> bytes:
        """Return the workspace as a tar archive. It is the work of strangers: only `restore` may unpack it.

        Raises:
            OSError: The workspace cannot be read, or is larger than its limit.
        """

    def restore(self, snapshot: bytes) -> None:
        """Unpack a snapshot over the workspace; what is not in it stays.

        Raises:
            OSError: It cannot be unpacked: no space, or no such archive.
        """

    def record(self) -> dict[str, Any]:
        """Return what isolation this sandbox gives, for the episode's record: kind, image, digest, limits, network."""

    def close(self) -> None:
        """End it with everything in it. Idempotent, and never raises."""

    def __enter__(self) -> Self:
        """Start it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
