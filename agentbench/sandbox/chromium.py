"""What a running Chromium has outside itself: processes, and the folders that a killed one leaves behind."""

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MAKERS: Final = ("org.chromium", "com.google.Chrome", "playwright_chromiumdev_profile")
"""One of these is in the name of every temporary folder of Chromium's, of Chrome's, or of Playwright's for them."""

SETTLED_SECONDS: Final = 5.0


def processes(argument: str) -> list[int]:
    """Return the processes that were started with exactly this argument, where the system lists them in /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return found


def folders(argument: str) -> list[Path]:
    """Return the temporary folders of the Chromium with this argument: its profile, and its socket's if it has one yet.

    By the socket it is told of a second start. Both lie in the temporary directory (`TMPDIR`, else `/tmp`), named as
    Playwright and Chromium name their own; nothing else is safe to remove.
    """
    found = []
    for pid in processes(argument):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            profiles = [word.partition(b"=")[2] for word in words if word.startswith(b"--user-data-dir=")]
            for profile in map(Path, map(os.fsdecode, profiles)):
                found.append(profile)
                found.append((profile / "SingletonSocket").readlink().parent)
    return [each for each in found if each.parent == _temporary() and any(maker in each.name for maker in MAKERS)]


def sweep() -> list[Path]:
    """Remove the folders of sockets at which no Chromium listens any more, and return them.

    Who is killed together with its browser, by SIGKILL, may leave one behind. A folder younger than `SETTLED_SECONDS`
    may belong to one that is about to listen.
    """
    gone = []
    for path in _temporary().glob("*/SingletonSocket"):  # Some versions of Chromium hide the folder, others do not.
        folder = path.parent
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            status = folder.stat()
            ours = any(maker in folder.name for maker in MAKERS) and status.st_uid == os.geteuid()
            if ours and time.time() - status.st_mtime > SETTLED_SECONDS:
                try:
                    client.connect(str(path))
                except ConnectionRefusedError:
                    shutil.rmtree(folder)
                    gone.append(folder)
    return gone


def _temporary() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")


def remove(found: Sequence[Path], seconds: float) -> None:
    """Remove folders into which processes that are about to die may still write."""
    deadline = time.monotonic() + seconds
    while any(folder.exists() for folder in found) and time.monotonic() < deadline:
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.02)
