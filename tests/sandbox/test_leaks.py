"""Nothing is left behind: not after an episode, not after a crowd of them, not after the runner was killed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentbench.core.errors import UsageError
from agentbench.sandbox import engine
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.owner import owner
from agentbench.sandbox.pool import Pool
from agentbench.sandbox.process import ProcessSandbox, stale_folders
from tests.sandbox.conftest import Make

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SMALL = Limits(memory=160, processes=48, disk=32, lifetime=600)

RUNNER = """
import sys, time
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.process import ProcessSandbox
limits = Limits(memory=160, disk=32)
sandbox = ProcessSandbox(limits) if sys.argv[1] == "process" else DockerSandbox(sys.argv[1], limits)
sandbox.start()
sandbox.exec("setsid sleep 54321 >/dev/null 2>&1 &")
print("ready", flush=True)
sandbox.exec("sleep 65432", timeout=500)
"""


def ours() -> set[str]:
    """Sandboxes of this process; other tests of it may keep an idle environment in its container."""
    return {each.id for each in engine.sandboxes() if each.owner == owner()}


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def runs_anywhere(words: str) -> bool:
    """Tell whether a command line is among the processes of this machine, containers included."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words in file.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                return True
        except OSError:
            continue
    return False


def test_a_crowd_of_sandboxes_leaves_nothing(image: str, scale: float) -> None:
    def episode(number: int) -> str:
        with DockerSandbox(image, SMALL) as sandbox:
            sandbox.exec(f"setsid sleep {700000 + number} >/dev/null 2>&1 &")
            sandbox.put({"n": str(number).encode()})
            return sandbox.get("n").decode()

    count = int(10 * scale)
    before = ours()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(episode, range(count))) == [str(number) for number in range(count)]
    assert eventually(lambda: ours() <= before)
    assert not any(runs_anywhere(f"sleep {700000 + number}") for number in range(count))


@pytest.mark.parametrize("kind", ["docker", "process"])
def test_a_killed_runner_takes_its_sandbox_along(kind: str, request: pytest.FixtureRequest) -> None:
    which = request.getfixturevalue("image") if kind == "docker" else "process"
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, which], stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    assert runner.stdout.readline() == "ready\n"
    assert runs_anywhere("sleep 54321")
    time.sleep(0.3)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    runner.stdout.close()
    assert eventually(lambda: not runs_anywhere("sleep 54321") and not runs_anywhere("sleep 65432"))
    if kind == "docker":
        assert eventually(lambda: all(f"+{runner.pid}+" not in each.owner for each in engine.sandboxes()))
    else:
        left = [each for each in stale_folders() if f"+{runner.pid}+" in each.name]
        assert len(left) == 1
        done = subprocess.run([sys.executable, "-m", "agentbench.cli", "sandbox", "cleanup"], check=False)
        assert done.returncode == 0
        assert not left[0].exists()


def test_the_reaper_takes_what_nobody_can_need_and_nothing_else(image: str) -> None:
    api = engine.engine()
    dead = owner().replace(f"+{os.getpid()}+", "+999999999+")
    marks = engine.labels(600)
    kinds: dict[str, dict[str, str]] = {
        "orphan": {engine.OWNER: dead},
        "expired": {engine.EXPIRES: str(int(time.time()) - 1)},
        "ours": {},
        "of another machine": {engine.OWNER: "elsewhere+1+1"},
    }
    made = {name: api.create_container(image, ["true"], labels=marks | kind)["Id"] for name, kind in kinds.items()}
    try:
        gone = {each.id for each in engine.cleanup()}
        assert {made["orphan"], made["expired"]} <= gone
        assert not gone & {made["ours"], made["of another machine"]}
    finally:
        for container in made.values():
            engine.remove(container)


def test_closing_leaves_no_file_descriptor_thread_or_folder(make: Make) -> None:
    def state() -> tuple[int, int]:
        folders = list(Path(tempfile.gettempdir()).glob(f"agentbench-sandbox-{owner()}-*"))
        return len(list(Path("/proc/self/fd").iterdir())), len(folders)

    with make(SMALL) as first:  # The client's own connections are made now.
        first.put({"a": b""})
    before = state()
    for _ in range(5):
        with make(SMALL) as sandbox:
            sandbox.put({"a": b"1"})
            sandbox.exec("exit")
            sandbox.exec("true")
    assert state()[1] == before[1] == 0
    assert state()[0] <= before[0] + 2


def test_a_pool_gives_each_sandbox_once_and_closes_the_rest(image: str) -> None:
    before = ours()
    with Pool(lambda: DockerSandbox(image, SMALL), spare=2) as pool:
        taken = [pool.take() for _ in range(4)]
        assert len({id(each) for each in taken}) == 4
        assert [each.exec("ls -A; touch used").output for each in taken] == [""] * 4
        for each in taken:
            each.close()
    with pytest.raises(UsageError, match="closed"):
        pool.take()
    assert eventually(lambda: ours() <= before)


def test_a_pool_throws_away_what_waited_too_long(make: Make) -> None:
    with Pool(lambda: make(Limits(memory=160, disk=32, lifetime=3)), spare=1) as pool:
        time.sleep(2.0)
        with pool.take() as sandbox:
            assert sandbox.exec("echo fresh").output == "fresh\n"


def test_a_pool_of_process_jails_works_from_many_threads() -> None:
    with Pool(lambda: ProcessSandbox(SMALL), spare=2) as pool, ThreadPoolExecutor(4) as threads:

        def episode(number: int) -> str:
            with pool.take() as sandbox:
                return sandbox.exec(f"echo {number}").output

        assert list(threads.map(episode, range(12))) == [f"{number}\n" for number in range(12)]
