"""The wire between a shell and its owner, with a bash of this machine: no engine is needed."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.sandbox.shell import BASH, SERVICE, SHELL, Clip, Shell


class Wire:
    """A bash at the other end of a socket."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        self._process = subprocess.Popen(
            [*BASH, "/"], stdin=other.fileno(), stdout=other.fileno(), stderr=subprocess.STDOUT
        )
        other.close()

    def send(self, data: bytes, deadline: float) -> None:
        self._socket.sendall(data)

    def receive(self, deadline: float) -> bytes:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        with contextlib.suppress(ConnectionError):
            return self._socket.recv(7)
        return b""

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@contextlib.contextmanager
def shell(driver: str) -> Iterator[Shell]:
    wire = Wire()
    try:
        yield Shell(wire, driver)
    finally:
        wire.close()


@given(st.integers(0, 60), st.lists(st.binary(max_size=50)))
def test_what_is_kept_is_a_head_and_a_tail(most: int, pieces: list[bytes]) -> None:
    clip, whole = Clip(most), b"".join(pieces)
    for piece in pieces:
        clip.add(piece)
    kept = clip.bytes("<{}>")
    if len(whole) <= most:
        assert (kept, clip.omitted) == (whole, 0)
    else:
        head, tail = most // 2, most - most // 2
        gone = len(whole) - most
        assert kept == whole[:head] + f"<{gone}>".encode() + whole[len(whole) - tail :]
        assert clip.omitted == gone


@given(st.binary(max_size=200))
def test_any_payload_passes_and_comes_back_however_it_is_cut(payload: bytes) -> None:
    with shell(SERVICE) as service:
        command = f"head -c {len(payload)}".encode()
        ended = service.run(command, payload=payload, most=1000, deadline=time.monotonic() + 30)
        assert (ended.exit_code, ended.output.bytes(), ended.over) == (0, payload, False)
        again = service.run(b"echo next", most=1000, deadline=time.monotonic() + 30)
        assert again.output.bytes() == b"next\n"


def test_a_shell_without_end_is_given_up_at_the_deadline() -> None:
    with shell(SHELL) as endless, pytest.raises(TimeoutError):
        endless.run(b"timeout 2 yes", most=100, deadline=time.monotonic() + 0.3)


def test_a_dead_shell_says_that_the_command_never_began() -> None:
    with shell(SHELL) as dead:
        assert dead.run(b"exit 5", most=100, deadline=time.monotonic() + 30).exit_code == 5
        assert not dead.run(b"echo", most=100, deadline=time.monotonic() + 30).began


def test_the_wire_is_closed_for_what_a_command_starts() -> None:
    with shell(SHELL) as ours:
        ended = ours.run(b"bash -c 'echo fake >&8; echo fake >&9' 2>&1", most=1000, deadline=time.monotonic() + 30)
        assert ended.output.bytes().count(b"Bad file descriptor") == 2
