"""One at a time: what several want, in this process or in others of this machine, is made once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a lock for as long as the block runs; whoever else wants it waits. The kernel frees it with its process.

    Args:
        file: Made if need be, and left there: to remove it would let two hold the lock, each on a file of its own.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
