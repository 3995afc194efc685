"""Time of the driver: ticks on the loop's clock, and detection of a loop or a disk that makes no progress.

A late tick is one tick: a process that was held up must first read the messages that arrived meanwhile."""

import asyncio
from collections.abc import Callable
from enum import Enum

from raftlog.runtime.histogram import Histogram
from raftlog.runtime.loop_holds import LOOP_HOLDS


class Stall(Enum):
    """Component that made no progress; the value describes it in words."""

    LOOP = "its loop stood still"
    DISK = "its disk stands still"


class Ticker:
    """Timer that calls `tick(now)`, and before it `stalled(stall)` after `stall_s` without progress of loop or disk."""

    def __init__(
        self, tick_s: float, stall_s: float, tick: Callable[[float], None], stalled: Callable[[Stall], None]
    ) -> None:
        """Call `tick` with the loop's time every `tick_s` seconds.

        `stalled` is called when the loop or the disk made no progress for `stall_s` seconds."""
        self._tick_s, self._stall_s = tick_s, stall_s
        self._tick, self._stalled = tick, stalled
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.lateness = Histogram()
        """Delays of ticks: times for which the loop was busy with something else."""
        self._ticked_at = 0.0
        self._moved_at = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the ticks on `loop`."""
        self._loop = loop
        self._ticked_at = self._moved_at = loop.time()
        self._timer = loop.call_later(self._tick_s, self._run)

    def stop(self) -> None:
        """Stop the ticks."""
        if self._timer:
            self._timer.cancel()

    def note_disk_moved(self) -> None:
        """Record that a sync returned, or that no sync is pending."""
        if self._loop:
            self._moved_at = self._loop.time()

    def _run(self) -> None:
        """Measure the tick's lateness, schedule the next one, and report a stalled loop or disk."""
        assert self._loop is not None, "a tick before the start"
        now = self._loop.time()
        late_s = max(0.0, now - self._ticked_at - self._tick_s)
        self.lateness.observe(late_s)
        LOOP_HOLDS.tick(late_s)
        self._timer = self._loop.call_later(self._tick_s, self._run)
        if now - self._ticked_at > self._stall_s:
            self._stalled(Stall.LOOP)
        elif now - self._moved_at > self._stall_s:
            self._stalled(Stall.DISK)
            self._moved_at = now
        self._ticked_at = now
        self._tick(now)
