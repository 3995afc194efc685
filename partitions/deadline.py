"""Deadlines: absolute times of the event loop's clock, passed unchanged through every layer."""

import asyncio
from collections.abc import Callable
from typing import NewType

Deadline = NewType("Deadline", float)
"""Value of `loop.time()` after which the caller no longer waits."""

NEVER = Deadline(float("inf"))


def deadline_in(milliseconds: float) -> Deadline:
    """Return the deadline in this number of milliseconds."""
    return Deadline(asyncio.get_running_loop().time() + milliseconds / 1000)


class DeadlineSweep:
    """One timer for many waiters: it fires at the earliest deadline, and again while deadlines are left.

    `expire(now)` answers all waiters whose deadline has passed and returns the earliest deadline left, or `NEVER`."""

    __slots__ = ("_expire", "_loop", "_timer", "earliest")

    def __init__(self, expire: Callable[[float], float]) -> None:
        """Begin without a timer; `expire` ends everything due at a time of the loop, and returns the next deadline."""
        self._expire = expire
        self._loop = asyncio.get_running_loop()
        self.earliest: float = NEVER
        """Deadline at which the timer fires next; `NEVER` without one."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, deadline: float) -> None:
        """Add a deadline; the timer fires at the earliest of all."""
        if deadline < self.earliest:
            self.cancel()
            self.earliest = deadline
            self._timer = self._loop.call_at(deadline, self._run)

    def cancel(self) -> None:
        """Forget all deadlines."""
        if self._timer is not None:
            self._timer.cancel()
        self.earliest, self._timer = NEVER, None

    def _run(self) -> None:
        """End everything due, and schedule the next run."""
        self.earliest, self._timer = NEVER, None
        self.add(self._expire(self._loop.time()))
