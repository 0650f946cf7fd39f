"""An engine that is stopped, hung, cut off or full: exit 4 before a run, infrastructure failures during one."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agentbench.core.errors import Failure
from agentbench.sandbox import engine
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox

pytestmark = pytest.mark.slow

SMALL = Limits(memory=160, processes=48, disk=32, lifetime=600)


def run(*words: str, host: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"DOCKER_HOST": host}
    command = [sys.executable, "-m", "agentbench.cli", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def ask_often(sandbox: DockerSandbox) -> None:
    """What breaks may be noticed only by the next command."""
    for _ in range(3):
        sandbox.exec("echo lost", timeout=1)


def test_a_stopped_engine_is_exit_4_with_advice(tmp_path: Path) -> None:
    done = run("sandbox", "list", host=f"unix://{tmp_path}/nobody.sock")
    assert done.returncode == 4
    assert "start one" in done.stderr
    assert "Traceback" not in done.stderr
    done = run(
        "eval",
        "--env",
        "sokoban",
        "--model",
        "nop",
        "--sandbox",
        "docker",
        "--out",
        str(tmp_path / "runs"),
        host=f"unix://{tmp_path}/nobody.sock",
    )
    assert done.returncode == 4
    assert not (tmp_path / "runs").exists()


def test_doctor_says_what_to_do_about_a_stopped_engine(tmp_path: Path) -> None:
    done = run("doctor", "--json", host=f"unix://{tmp_path}/nobody.sock")
    assert done.returncode == 0
    assert "start one: sudo systemctl start docker" in done.stdout


@pytest.mark.parametrize("words", [["doctor", "--json"], ["images", "list"], ["sandbox", "list"]])
def test_without_the_docker_package_one_line_says_what_to_install(words: list[str]) -> None:
    hide = "import runpy, sys; sys.modules['docker'] = None; runpy.run_module('agentbench.cli', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hide, *words], capture_output=True, text=True, check=False)
    assert done.returncode == (0 if words[0] == "doctor" else 4), done.stderr
    assert "Traceback" not in done.stderr
    assert "the docker package is missing; install it with" in done.stdout + done.stderr


class Proxy(NamedTuple):
    """A way to the engine that can be closed."""

    host: str
    hang: threading.Event
    """Set: nothing passes any more, and no connection ends."""
    cut: threading.Event
    """Set: every connection ends."""


@pytest.fixture
def proxy(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Stand between us and the real engine."""
    way = Proxy(f"unix://{tmp_path}/engine.sock", threading.Event(), threading.Event())
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "engine.sock"))
    server.listen()
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def copy(source: socket.socket, target: socket.socket) -> None:
        source.settimeout(0.05)
        with contextlib.suppress(OSError):
            while not way.cut.is_set():
                try:
                    data = source.recv(65536)
                except TimeoutError:
                    continue
                if not data:
                    break
                while way.hang.is_set() and not way.cut.is_set():
                    way.cut.wait(0.05)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client = server.accept()[0]
                real = socket.socket(socket.AF_UNIX)
                real.connect("/var/run/docker.sock")
                sockets.extend((client, real))
                for pair in ((client, real), (real, client)):
                    threads.append(threading.Thread(target=copy, args=pair, daemon=True))
                    threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    monkeypatch.setenv("DOCKER_HOST", way.host)
    monkeypatch.setattr(engine, "CALL_SECONDS", 2.0)
    engine._connect.cache_clear()
    yield way
    way.cut.set()
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    for thread in (accepting, *threads):
        thread.join(5)
    for each in sockets:
        each.close()
    engine._connect.cache_clear()


def test_an_engine_that_is_cut_off_is_an_infrastructure_failure(image: str, proxy: Proxy) -> None:
    with DockerSandbox(image, SMALL) as sandbox:
        assert sandbox.exec("echo hi").output == "hi\n"
        proxy.cut.set()
        with pytest.raises(Failure) as caught:
            ask_often(sandbox)
    assert caught.value.cause == "sandbox"


def test_an_engine_that_hangs_is_an_infrastructure_failure_in_time(
    image: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentbench.sandbox.jail.GRACE_SECONDS", 1.0)
    with DockerSandbox(image, SMALL) as sandbox:
        proxy.hang.set()
        with pytest.raises(Failure, match="did not end a command in time") as caught:
            sandbox.exec("echo lost", timeout=0.5)
        assert caught.value.cause == "sandbox"
        with pytest.raises(Failure):
            DockerSandbox(image, SMALL).start()
        proxy.hang.clear()


def test_a_full_engine_is_found_before_the_run(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.missing_engine() is None
    monkeypatch.setattr(engine, "FULL_BYTES", 2**80)
    assert "is full; free some with: agentbench sandbox cleanup" in str(engine.missing_engine())


def test_a_container_that_was_killed_is_an_infrastructure_failure(image: str) -> None:
    with DockerSandbox(image, SMALL) as sandbox:
        engine.engine().kill(sandbox.container)
        with pytest.raises(Failure) as caught:
            ask_often(sandbox)
    assert caught.value.cause == "sandbox"
