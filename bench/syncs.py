"""Count of this process's syncs, so that a figure for durable work can show that the work was durable."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from raftlog.storage.syncs.aio_syncs import AioSyncs, Ended, Job


class SyncCount:
    """Number of `fdatasync` that returned without an error: calls from any thread, and syncs by Linux AIO."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        with self._lock:
            self.total += 1


@contextmanager
def counted_syncs() -> Iterator[SyncCount]:
    """Count while the block runs. The calls go to the system as always."""
    count, fdatasync, submit = SyncCount(), os.fdatasync, AioSyncs.submit

    def call(descriptor: int) -> None:
        fdatasync(descriptor)
        count.add()

    def submit_counted(syncs: AioSyncs, descriptor: int, ended: Ended) -> bool:
        def end(error: OSError | None) -> Job:
            if error is None:
                count.add()
            return ended(error)

        return submit(syncs, descriptor, end)

    with patch.object(os, "fdatasync", call), patch.object(AioSyncs, "submit", submit_counted):
        yield count
