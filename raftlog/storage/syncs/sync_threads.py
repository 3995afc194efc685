"""Threads that run only blocking syncs.

Every commit needs a sync, so the path there and back is short: one queue, no futures. The threads are daemon threads: a
sync that hangs must not delay the end of the process."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

Job = Callable[[], None]


class SyncThreads:
    """Threads that run jobs in order, at most `count` at a time. A job must not raise, because that ends its thread."""

    def __init__(self, count: int) -> None:
        """Start `count` threads that run syncs."""
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"sync {number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, job: Job) -> None:
        """Queue a job for one of the threads."""
        self._jobs.put(job)

    def close(self, waits: bool) -> None:
        """End the threads after the queued jobs; block until then if `waits`. No job may follow."""
        for _ in self._threads:
            self._jobs.put(None)
        if waits:
            for thread in self._threads:
                thread.join()

    async def wait_closed(self) -> None:
        """Wait until the threads have ended after `close`.

        A daemon thread joins them: the end of the event loop would wait for a thread of the loop's pool for ever."""
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def set_ended() -> None:
            if not ended.done():
                ended.set_result(None)

        def wait() -> None:
            for thread in self._threads:
                thread.join()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(set_ended)

        threading.Thread(target=wait, name="end of sync threads", daemon=True).start()
        await ended

    def _work(self) -> None:
        """Run jobs until None arrives."""
        while (job := self._jobs.get()) is not None:
            job()
