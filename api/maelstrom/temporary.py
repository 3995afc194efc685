"""Temporary directory of a node; a Maelstrom test needs no disk beyond the life of its nodes.

Maelstrom kills its nodes, so a directory left by one is removed by a later one: directories of this kind without
a lock that are older than any start takes. Called by the composition root."""

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
    """Yield a directory that is removed at the end, together with leftovers of earlier processes."""
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{PREFIX}*"):
        remove_left(left)
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield str(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_left(path: Path) -> bool:
    """Remove a directory whose process has ended; false when it may be in use, or belongs to another user."""
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
