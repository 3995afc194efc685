"""Counter of the syncs of this process, which shows that measured writes were durable."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from raftlog.storage.syncs.aio_syncs import AioSyncs, Ended, Job


class SyncCount:
    """Number of successful `fdatasync` calls of all threads, and of syncs by Linux AIO."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        with self._lock:
            self.total += 1


@contextmanager
def count_syncs() -> Iterator[SyncCount]:
    """Count syncs while the block runs; they are still executed."""
    count, fdatasync, submit = SyncCount(), os.fdatasync, AioSyncs.submit

    def sync_and_count(descriptor: int) -> None:
        fdatasync(descriptor)
        count.add()

    def submit_counted(syncs: AioSyncs, descriptor: int, ended: Ended) -> bool:
        """Submit a sync that is counted when it succeeds; return whether it was submitted."""

        def end(error: OSError | None) -> Job:
            """Count a successful sync, and call the original callback."""
            if error is None:
                count.add()
            return ended(error)

        return submit(syncs, descriptor, end)

    with patch.object(os, "fdatasync", sync_and_count), patch.object(AioSyncs, "submit", submit_counted):
        yield count
