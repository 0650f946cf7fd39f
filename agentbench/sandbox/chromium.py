"""What a running Chromium has outside itself: processes, and the folder of a socket that a killed one leaves behind."""

import contextlib
import os
from pathlib import Path
from typing import Final

MAKERS: Final = ("org.chromium", "com.google.Chrome")
"""One of these is in the name of every temporary folder of Chromium's, or of Chrome's."""


def processes(argument: str) -> list[int]:
    """Return the processes that were started with exactly this argument, where the system lists them in /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return found


def socket_folder(argument: str) -> Path | None:
    """Return the folder of the socket by which the Chromium with this argument is told of a second start, if any.

    It lies in Chromium's temporary directory (`TMPDIR`, else `/tmp`) and is named as Chromium names its own;
    nothing else is safe to remove.
    """
    temporary = Path(os.environ.get("TMPDIR") or "/tmp")
    for pid in processes(argument):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            profiles = [word.partition(b"=")[2] for word in words if word.startswith(b"--user-data-dir=")]
            for profile in map(os.fsdecode, profiles):
                folder = (Path(profile) / "SingletonSocket").readlink().parent
                ours = folder.is_absolute() and folder.parent == temporary
                if ours and any(maker in folder.name for maker in MAKERS):
                    return folder
    return None
