"""Waits of readers for more visible records: each for a number of bytes, counted while any reader waits."""

import asyncio
from typing import Protocol

from raftlog.partitions.deadline import Deadline


class ReplicaWatch(Protocol):
    """Reader that waits at several replicas; `place` is the reader's number of the replica."""

    def advanced(self, place: int, size: int) -> None:
        """Count `size` bytes that became visible at the replica, possibly more."""
        ...

    def changed(self, place: int) -> None:
        """Mark the replica as changed: the reader has to read it again."""
        ...


class Waits:
    """Readers that wait at one replica for more bytes. A cancelled wait leaves no entry."""

    __slots__ = ("_is_closed", "_visible_bytes", "_waiting", "_watches")

    def __init__(self) -> None:
        """Begin without waiting readers."""
        self._is_closed = False
        self._visible_bytes = 0
        """Total of visible bytes; never falls."""
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._watches: dict[ReplicaWatch, int] = {}
        """Readers of many replicas, with their numbers of this one."""

    def __len__(self) -> int:
        """Return the number of waits."""
        return len(self._waiting) + len(self._watches)

    @property
    def is_closed(self) -> bool:
        """Whether no reader may wait any more."""
        return self._is_closed

    def advance(self, size: int) -> None:
        """Add `size` visible bytes, and wake the readers that need no more."""
        self._visible_bytes += size
        for woken, threshold in self._waiting.items():
            if threshold <= self._visible_bytes and not woken.done():
                woken.set_result(None)
        for watch, place in self._watches.items():
            watch.advanced(place, size)

    def wake_all(self) -> None:
        """Wake all readers, because the replica's state has changed."""
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)
        for watch, place in self._watches.items():
            watch.changed(place)

    def close(self) -> None:
        """End all waits, and allow no further ones."""
        self._is_closed = True
        for woken in self._waiting:
            time_out(woken)
        for watch, place in self._watches.items():
            watch.changed(place)

    def watch(self, watch: ReplicaWatch, place: int) -> bool:
        """Report every advance and change to this reader until `unwatch`; return False once no reader may wait."""
        if self._is_closed:
            return False
        self._watches[watch] = place
        return True

    def unwatch(self, watch: ReplicaWatch) -> None:
        """End `watch`."""
        self._watches.pop(watch, None)

    async def wait(self, size: int, deadline: Deadline) -> bool:
        """Wait for `size` more visible bytes, or `wake_all`; return False if the deadline passes first."""
        loop = asyncio.get_running_loop()
        if self._is_closed or loop.time() >= deadline:
            return False
        woken: asyncio.Future[None] = loop.create_future()
        self._waiting[woken] = self._visible_bytes + size
        timer = loop.call_at(deadline, time_out, woken)
        try:
            await woken
        except TimeoutError:
            return False
        finally:
            timer.cancel()
            del self._waiting[woken]
        return True


def time_out(woken: "asyncio.Future[None]") -> None:
    """Fail the wait with `TimeoutError`, unless it has ended."""
    if not woken.done():
        woken.set_exception(TimeoutError())
