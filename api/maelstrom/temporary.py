"""Temporary directory of a node, because a Maelstrom test keeps no data after its end.

Maelstrom kills its nodes, so a later node removes the directory of a killed one: a directory with this prefix that is
not locked and older than `LEFT_AFTER_S`, which is longer than a start takes. Called by `raftlog maelstrom`."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = "raftlog-maelstrom-"
LEFT_AFTER_S: Final = 60.0


@contextlib.contextmanager
def temporary_directory() -> Iterator[str]:
    """Yield a new directory; remove it at the end, and those that earlier processes left."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{PREFIX}*"):
        remove_abandoned(left)
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield str(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_abandoned(path: Path) -> bool:
    """Remove a directory whose process has ended; return false if it may be in use, or has another owner."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.time() - os.fstat(lock).st_mtime < LEFT_AFTER_S:
            return False
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
