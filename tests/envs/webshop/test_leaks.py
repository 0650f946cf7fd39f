"""Nothing of a browser's episodes stays behind: no process, port, thread, open file or temporary folder."""

import asyncio
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.records import RunDirectory
from agentbench.core.registry import resolve
from agentbench.evaluate.evaluate import plan_tasks
from agentbench.policies import scripted
from agentbench.rollout.episode import Setting
from agentbench.rollout.limits import Limits
from agentbench.rollout.pool import play
from agentbench.sandbox.chromium import sweep
from tests.cli.command import start

pytestmark = [pytest.mark.slow, pytest.mark.alone]

Record = Callable[[str, object], None]
"""Writes a number beside a test's outcome."""

PATIENCE = 300.0
"""Seconds until something counts as never happening; a busy machine takes more than a minute to start a browser."""

LISTENS = "0A"
"""How the system's table of connections writes that state."""


@pytest.fixture(name="scratch")
def _scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only place for temporary files; Chromium's socket needs a short path."""
    folder = Path(tempfile.mkdtemp(prefix="shop-"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


def browsers(scratch: Path, client: int = 0) -> list[int]:
    """Return the processes, but the client's own, that have this folder for temporary files or a profile in it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            said = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(scratch).encode() in said and int(folder.name) not in (os.getpid(), client):
            found.append(int(folder.name))
    return found


def left(scratch: Path) -> list[int | str]:
    """Return processes and files that are still there."""
    return [*browsers(scratch), *(path.name for path in scratch.iterdir())]


def nothing_left(scratch: Path, *, swept: bool) -> bool:
    """Driver and browser end by themselves; one killed at a bad moment leaves its socket, for the next to sweep."""
    if swept:
        sweep()
    return not left(scratch)


def ports(pid: int) -> set[str]:
    """Return the addresses at which a process listens, as the system writes them."""
    held = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(str(link.readlink()))
        except OSError:
            continue
    return {address for address, inode in _listening() if f"socket:[{inode}]" in held}


def _listening() -> list[tuple[str, str]]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [(row[1], row[9]) for row in rows if row[3] == LISTENS]


def waits_for(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.1)
    return held


def test_nothing_stays_after_many_episodes(scratch: Path, scale: float, record_property: Record) -> None:
    resolved = resolve("webshop/browser")
    setting = Setting(resolved, Limits(resolved.max_turns))
    held: list[int] = []

    async def episodes(count: int) -> int:
        ended = 0
        async for played in play(plan_tasks(resolved, count, 1, 0), setting, scripted.oracle(), jobs=4):
            assert played.trajectory.failure is None
            ended += 1
            held.append(len(browsers(scratch)))
        return ended

    def remains() -> tuple[int, int, set[str], set[str]]:
        """Count open files, processes, threads and ports."""
        names = {thread.name for thread in threading.enumerate()}
        return len(list(Path("/proc/self/fd").iterdir())), len(browsers(scratch)), names, ports(os.getpid())

    asyncio.run(episodes(2))  # What stays for good, such as loaded libraries, is there after the first ones.
    assert waits_for(lambda: not browsers(scratch))
    before = remains()
    held.clear()
    count = round(10 * scale)
    record_property("episodes", count)
    assert asyncio.run(episodes(count)) == count
    assert waits_for(lambda: remains() == before), (remains(), before)
    assert list(scratch.iterdir()) == []
    # A page's process may outlive it for a moment, on a busy machine too.
    assert max(held) <= 24, "a browser's processes are as many as its pages, not as its episodes"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_nothing_stays_whenever_an_evaluation_is_stopped(
    tmp_path: Path, scratch: Path, number: signal.Signals, code: int, scale: float, record_property: Record
) -> None:
    # Driver, browser, context and page are started one by one; then episodes run.
    moments = (*(0.3 * step for step in range(max(2, round(scale)))), None)
    record_property("stops", len(moments))
    for moment in moments:
        stop(tmp_path / str(moment), scratch, number, code, moment)


def stop(home: Path, scratch: Path, number: signal.Signals, code: int, moment: float | None) -> None:
    """Stop an evaluation some seconds after its browser's driver was started, or once an episode ended."""
    home.mkdir()
    process = start("eval", "--model", "random", "--env", "webshop/browser", "-n", 100, "-j", 2, cwd=home)
    assert waits_for(lambda: len(browsers(scratch, process.pid)) > 0)
    if moment is None:
        assert waits_for(lambda: any(path.read_bytes() for path in home.glob("runs/*/episodes.jsonl")))
        assert len(ports(process.pid)) == 1
    else:
        time.sleep(moment)
    listened = ports(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, said
    assert waits_for(lambda: nothing_left(scratch, swept=number == signal.SIGKILL)), (moment, left(scratch))
    assert listened.isdisjoint(address for address, _ in _listening())


def test_an_evaluation_outlives_its_browsers(tmp_path: Path, scratch: Path) -> None:
    process = start(
        *("eval", "--model", "oracle", "--env", "webshop/browser", "-n", 10, "-j", 2, "--retries", 4),
        *("-E", "patience=10"),
        cwd=tmp_path,
    )
    for number in (signal.SIGKILL, signal.SIGSTOP):
        strike(tmp_path, scratch, number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    rows = rows_in(tmp_path)
    failed = [row for row in rows if not row["scored"]]
    assert failed and {row["failure"]["cause"] for row in failed} <= {"sandbox", "timeout"}
    won = {row["key"] for row in rows if row["success"]}
    assert len(won) == 10 and won >= {row["key"] for row in failed}, "what failed was played again"
    assert waits_for(lambda: not left(scratch)), left(scratch)


def strike(home: Path, scratch: Path, number: signal.Signals) -> None:
    """Send a signal to every process of Chromium while episodes run, and wait until these are gone."""

    def won() -> int:
        return sum(row["scored"] for row in rows_in(home))

    ended = won()
    assert waits_for(lambda: won() > ended)
    struck = [pid for pid in browsers(scratch) if b"--user-data-dir=" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert struck
    for pid in struck:
        os.kill(pid, number)
    assert waits_for(lambda: set(struck).isdisjoint(browsers(scratch)))


def rows_in(home: Path) -> list[dict[str, Any]]:
    """Return what the only run of a folder has recorded so far."""
    return [row for path in home.glob("runs/*/run.json") for row in RunDirectory.open(path.parent).rows()]
