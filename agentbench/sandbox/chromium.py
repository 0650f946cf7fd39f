"""What a running Chromium has outside itself: processes, and the folder of a socket that a killed one leaves behind."""

import contextlib
import os
from pathlib import Path


def processes(argument: str) -> list[int]:
    """Return the processes that were started with exactly this argument, where the system lists them in /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return found


def socket_folder(argument: str) -> Path | None:
    """Return the folder of the socket by which the Chromium with this argument is told of a second start, if any."""
    for pid in processes(argument):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            profiles = [word.partition(b"=")[2] for word in words if word.startswith(b"--user-data-dir=")]
            for profile in map(os.fsdecode, profiles):
                return (Path(profile) / "SingletonSocket").readlink().parent
    return None
