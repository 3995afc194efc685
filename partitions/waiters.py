"""Fetches that wait for records which are not there yet (long poll)."""

import asyncio

from raftlog.partitions.deadline import Deadline


class FetchWaiters:
    """Waiting fetches of one partition. Each names how many visible bytes it waits for, counted since the start."""

    __slots__ = ("_closed", "_waiting", "visible_bytes")

    def __init__(self) -> None:
        self.visible_bytes = 0
        """Bytes that became visible to readers since the partition was opened; never falls."""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._closed = False

    def advance(self, size: int) -> None:
        """So many bytes more are visible: wake whom that satisfies."""
        self.visible_bytes += size
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """Wake everybody; nobody waits from now on."""
        self._closed = True
        self._wake()

    async def wait(self, size: int, deadline: Deadline) -> bool:
        """Wait until `size` more bytes are visible; false when the deadline passed or the partition closes."""
        loop = asyncio.get_running_loop()
        if self._closed or loop.time() >= deadline:
            return False
        woken: asyncio.Future[None] = loop.create_future()
        entry = (self.visible_bytes + size, woken)
        self._waiting.append(entry)
        timer = loop.call_at(deadline, _wake_one, woken)
        try:
            await woken
        finally:
            timer.cancel()
            if entry in self._waiting:
                self._waiting.remove(entry)
        return self.visible_bytes >= entry[0] and not self._closed

    def _wake(self) -> None:
        for threshold, woken in self._waiting:
            if threshold <= self.visible_bytes or self._closed:
                _wake_one(woken)


def _wake_one(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
