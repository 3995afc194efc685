"""Byte budget shared by producers; callers queue for room, and fail when their deadline passes.

Invariant: `used ≤ limit`, except that one caller always gets in when nothing is used, however large its request is."""

import asyncio
from collections import deque

from raftlog.errors import Overloaded
from raftlog.partitions.deadline import NEVER, Deadline


class Budget:
    """Byte budget that serves callers in the order of their arrival."""

    __slots__ = ("_line", "limit", "name", "used")

    def __init__(self, limit: int, name: str) -> None:
        """Create a budget of `limit` bytes; `name` is for errors."""
        self.limit = limit
        self.name = name
        self.used = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    def try_take(self, size: int) -> bool:
        """Take `size` bytes if they are free and no caller waits; return whether they were taken."""
        used = self.used
        if self._line or (used and used + size > self.limit):
            return False
        self.used = used + size
        return True

    async def take(self, size: int, deadline: Deadline) -> None:
        """Take `size` bytes, waiting for them until the deadline. Raises `Overloaded`."""
        if self.try_take(size):
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._line.append((size, turn))
        timer = loop.call_at(deadline, self._expire, turn) if deadline != NEVER else None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit_waiting()
            elif turn.exception() is None:  # admitted at the moment when the caller was cancelled
                self.release(size)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def release(self, size: int) -> None:
        """Release `size` bytes, and admit the waiting callers whose bytes fit now."""
        self.used -= size
        assert self.used >= 0, f"{self.name}: gave back {-self.used} bytes more than were taken"
        if self._line:
            self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Admit waiting callers in order while their bytes fit."""
        while self._line:
            size, turn = self._line[0]
            if not turn.done():
                if self.used and self.used + size > self.limit:
                    return
                self.used += size
                turn.set_result(None)
            self._line.popleft()

    def _expire(self, turn: asyncio.Future[None]) -> None:
        """Fail a waiting caller with `Overloaded` at its deadline."""
        if not turn.done():
            turn.set_exception(
                Overloaded(
                    f"{self.name}: {self.used} of {self.limit} bytes wait for the disk, and no room came free in time; "
                    "send more slowly and retry"
                )
            )
            self._admit_waiting()
