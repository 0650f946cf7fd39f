"""A sandbox in a container of its own."""

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any

from agentbench.core.errors import AgentBenchError
from agentbench.sandbox.base import Limits
from agentbench.sandbox.engine import asking, engine, labels, remove
from agentbench.sandbox.jail import Jail
from agentbench.sandbox.shell import BASH, ENVIRONMENT, WARDEN, WORKSPACE, Channel

if TYPE_CHECKING:
    import docker

MIB = 2**20

INODES = 128
"""Files and folders of a file system in memory, per MiB of the memory limit: each costs about a KiB that no size of a
file system counts, and a sandbox whose memory they fill could start no shell any more."""

CHUNK = 2**18
"""Bytes that are read at once."""

HEADER = 8
"""Bytes before each frame of the engine's stream: kind, three zeros, length as four bytes (Engine API, "attach")."""


class DockerSandbox(Jail):
    """A sandbox in a container: namespaces, cgroups, the engine's seccomp filter, no capabilities, no network.

    The container is bound to this process: when the connection to its warden ends, by `close` or by a SIGKILL, the
    warden kills everything inside and the engine removes the container. The warden is another user than the commands,
    so that they can neither trace it nor read and write its orders; `KILL` is the one capability that this takes.

    Args:
        image: Name or id of an image with bash, GNU tar and coreutils.
        limits: What it may use.
    """

    def __init__(self, image: str, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits())
        self.image = image
        self.container = ""
        """The container's id, once it was started."""
        self._digest = ""
        self._orders: Wire | None = None

    def _boot(self) -> None:
        api = engine()
        with asking(f"starting a container of {self.image}"):
            self._digest = api.inspect_image(self.image)["Id"]
            made = api.create_container(
                self._digest,
                entrypoint=[*BASH, str(int(self.limits.lifetime))],
                command=[],
                user="0:0",
                working_dir="/",
                environment=ENVIRONMENT,
                stdin_open=True,
                healthcheck={"test": ["NONE"]},
                labels=labels(self.limits.lifetime),
                host_config=self._host_config(api),
            )
            self.container = made["Id"]
            self._orders = Wire(api.attach_socket(self.container, params={"stdin": 1, "stream": 1}))
            api.start(self.container)
        self._order(f"{WARDEN}\0", end="")

    def _host_config(self, api: "docker.APIClient") -> dict[str, Any]:
        """Deny everything that is not said here."""
        limits = self.limits
        user, _, group = limits.user.partition(":")
        mine = f"rw,nosuid,nodev,uid={user},gid={group or user},nr_inodes={INODES * limits.memory}"
        config: dict[str, Any] = api.create_host_config(
            auto_remove=True,
            network_mode=limits.network,
            read_only=limits.root == "read-only",
            cap_drop=["ALL"],
            cap_add=["KILL"],  # For the warden, which is root: commands run as another user and have none.
            security_opt=["no-new-privileges"],
            mem_limit=limits.memory * MIB,
            memswap_limit=limits.memory * MIB,
            nano_cpus=int(limits.cpus * 1e9),
            pids_limit=limits.processes,
            tmpfs={
                WORKSPACE: f"{mine},exec,size={limits.disk}m,mode=0700",
                "/tmp": f"{mine},exec,size={max(1, limits.disk // 4)}m,mode=1777",
                "/dev/shm": f"{mine},noexec,size=16m,mode=1777",
            },
            # What process 1 prints would else fill the engine's disk, and anybody inside can open its streams.
            log_config={"Type": "none"},
        )
        return config

    def _open(self, folder: str) -> Channel:
        api = engine()
        with asking("opening a shell in the container"):
            made = api.exec_create(
                self.container, [*BASH, folder], stdin=True, user=self.limits.user, environment=ENVIRONMENT
            )
            return Frames(api.exec_start(made["Id"], socket=True))

    def _order(self, line: str, end: str = "\n") -> None:
        assert self._orders is not None
        try:
            self._orders.send((line + end).encode(), time.monotonic() + 1.0)
        except OSError:
            raise self._broken("its warden is gone") from None

    def _destroy(self) -> None:
        if self._orders is not None:
            self._orders.close()
        if self.container:
            with contextlib.suppress(AgentBenchError):
                remove(self.container)

    def _why_dead(self) -> str:
        try:
            with asking("looking at the container"):
                state = engine().inspect_container(self.container)["State"]
        except AgentBenchError as error:
            return str(error)
        memory = ", out of memory" if state["OOMKilled"] else ""
        return f"container {state['Status']}, exit code {state['ExitCode']}{memory}"

    def record(self) -> dict[str, Any]:
        """Return what isolation this sandbox gives."""
        limits = self.limits
        return {
            "kind": "docker",
            "image": self.image,
            "digest": self._digest,
            "network": limits.network,
            "root": limits.root,
            "user": limits.user,
            "capabilities": "none",
            "memory_mib": limits.memory,
            "cpus": limits.cpus,
            "processes": limits.processes,
            "disk_mib": limits.disk,
            "lifetime_s": limits.lifetime,
        }


class Wire:
    """A connection that the engine handed over: bytes go in.

    Args:
        handed: What docker-py returns for a socket; it keeps the response from being collected.
    """

    def __init__(self, handed: Any) -> None:
        self._handed = handed
        self._socket: socket.socket = getattr(handed, "_sock", handed)
        self._socket.settimeout(None)

    def send(self, data: bytes, deadline: float) -> None:
        """Write all of it."""
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._socket.sendall(data)

    def close(self) -> None:
        """End the connection, whoever else holds a copy of its socket."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with contextlib.suppress(Exception):
            self._handed.close()


class Frames(Wire):
    """A connection whose answers come in the engine's frames, which say which stream each belongs to."""

    def __init__(self, handed: Any) -> None:
        super().__init__(handed)
        self._raw = bytearray()
        self._rest = 0

    def receive(self, deadline: float) -> bytes:
        """Return what came, of both streams; nothing at the end."""
        content = bytearray()
        while not content:
            if not self._take(content):
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                data = self._receive()
                if not data:
                    return b""
                self._raw += data
        return bytes(content)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(CHUNK)
        except ConnectionError:
            return b""

    def _take(self, content: bytearray) -> bool:
        """Move the content of frames that are here; False if there was none."""
        at = 0
        while at < len(self._raw):
            if not self._rest:
                if len(self._raw) - at < HEADER:
                    break
                self._rest = int.from_bytes(self._raw[at + 4 : at + HEADER], "big")
                at += HEADER
            piece = self._raw[at : at + self._rest]
            content += piece
            at += len(piece)
            self._rest -= len(piece)
        del self._raw[:at]
        return bool(content)
