"""A few threads that run blocking syncs, and nothing else.

A sync is handed over for every commit, so the way there and back is short: one queue, no futures. The threads do not
keep the process alive: a sync that hangs must not hold it up when it has to end.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class SyncThreads:
    """Jobs are begun in their order, `count` at the same time at most. A job must not raise: it ends its thread."""

    def __init__(self, count: int) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"sync {number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, job: Job) -> None:
        """Have it done by one of the threads."""
        self._jobs.put(job)

    def close(self, waits: bool) -> None:
        """No job may come any more. Blocking until all are done, if it `waits`."""
        for _ in self._threads:
            self._jobs.put(None)
        if waits:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
