"""Waits of readers until more records are visible: each for a number of bytes, counted while any reader waits."""

import asyncio

from raftlog.partitions.deadline import Deadline


class Waits:
    """Waits at one replica. A cancelled wait leaves no entry."""

    __slots__ = ("_is_closed", "_visible_bytes", "_waiting")

    def __init__(self) -> None:
        self._is_closed = False
        self._visible_bytes = 0
        """Total of visible bytes; never falls."""
        self._waiting: dict[asyncio.Future[None], int] = {}

    def __len__(self) -> int:
        """Return the number of waits."""
        return len(self._waiting)

    def advance(self, size: int) -> None:
        """Add `size` visible bytes, and wake the readers for which they suffice."""
        self._visible_bytes += size
        for woken, threshold in self._waiting.items():
            if threshold <= self._visible_bytes and not woken.done():
                woken.set_result(None)

    def wake_all(self) -> None:
        """Wake all readers, because the replica's state has changed."""
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)

    def close(self) -> None:
        """End all waits, and allow none from now on."""
        self._is_closed = True
        for woken in self._waiting:
            _give_up(woken)

    async def wait(self, size: int, deadline: Deadline) -> bool:
        """Wait until `size` more bytes are visible, or `wake_all`; false when the deadline passes first."""
        loop = asyncio.get_running_loop()
        if self._is_closed or loop.time() >= deadline:
            return False
        woken: asyncio.Future[None] = loop.create_future()
        self._waiting[woken] = self._visible_bytes + size
        timer = loop.call_at(deadline, _give_up, woken)
        try:
            await woken
        except TimeoutError:
            return False
        finally:
            timer.cancel()
            del self._waiting[woken]
        return True


def _give_up(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_exception(TimeoutError())
