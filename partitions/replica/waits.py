"""Readers that wait until more is visible. Each names how many bytes it waits for, counted while anybody waits."""

import asyncio

from raftlog.partitions.deadline import Deadline


class Waits:
    """Of one replica. Whoever gives up leaves nothing behind."""

    __slots__ = ("_is_closed", "_visible_bytes", "_waiting")

    def __init__(self) -> None:
        self._is_closed = False
        self._visible_bytes = 0
        """Never falls."""
        self._waiting: dict[asyncio.Future[None], int] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def advance(self, size: int) -> None:
        """So many bytes more are visible: wake whom that satisfies."""
        self._visible_bytes += size
        for woken, threshold in self._waiting.items():
            if threshold <= self._visible_bytes and not woken.done():
                woken.set_result(None)

    def wake_all(self) -> None:
        """There is something else to look at than bytes."""
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)

    def close(self) -> None:
        """Whoever waits has waited long enough, and nobody waits from now on."""
        self._is_closed = True
        for woken in self._waiting:
            _give_up(woken)

    async def wait(self, size: int, deadline: Deadline) -> bool:
        """Wait until `size` more bytes are visible, or until all are woken; false when the deadline came first."""
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
