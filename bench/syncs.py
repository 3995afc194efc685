"""Count of this process's syncs, so that a figure for durable work can show that the work was durable."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SyncCount:
    """Calls of `os.fdatasync` that returned, from any thread."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        with self._lock:
            self.total += 1


@contextmanager
def counted_syncs() -> Iterator[SyncCount]:
    """Count while the block runs. The calls go to the system as always."""
    count, real = SyncCount(), os.fdatasync

    def counting(descriptor: int) -> None:
        real(descriptor)
        count.add()

    os.fdatasync = counting  # type: ignore[assignment]
    try:
        yield count
    finally:
        os.fdatasync = real
