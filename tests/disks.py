"""Disks that are full and folders that nobody may write to, also for root."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Make the folder read-only for this process, also if root runs the tests."""
    parents = [folder, *folder.parents]
    opened = [(path, path.stat().st_mode) for path in parents if path.stat().st_uid == os.geteuid()]
    for path, mode in opened:
        path.chmod(mode | 0o555 if path != folder else 0o555)
    if root := os.geteuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path, mode in opened:
            path.chmod(mode & 0o7777)


@contextmanager
def little_room(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 64 KiB; where none can be mounted, files may not grow past 16 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0:
        try:
            yield disk
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, before[1]))
    try:
        yield disk
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that cannot be written to."""
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    if os.geteuid() != 0:
        yield folder
    elif (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True).returncode == 0
    ):
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    else:
        yield Path("/sys")  # The kernel's own: not even root makes a folder there.
