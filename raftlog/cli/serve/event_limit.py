"""Limit on the log events of one name in a second, for example when a thousand Raft groups lose their leader.

    lines of one name in a second ≤ per_second, and one line that counts the other events

A second begins with the first event after a quiet second. Events above the limit are still written at level debug.
Installed by `logs`, called by `raftlog.events`.
"""

import asyncio
import logging

from raftlog.events import Gate, event

PER_SECOND = 40
"""More than the number of partitions of the internal topic that the first use of a group creates."""
_logger = logging.getLogger(__name__)


class EventLimit(Gate):
    """Rate limit on log events: a number per second for each event name."""

    def __init__(self, per_second: int = PER_SECOND) -> None:
        self._per_second = per_second
        self._counts: dict[str, int] = {}
        """Number of events in the present second, by event name."""

    def allows(self, name: str) -> bool:
        """Count an event of this name; return whether it is within the limit of the present second."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return True  # while settings and certificates are read, before the loop runs
        if not self._counts:
            loop.call_later(1.0, self.end_second)
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return count <= self._per_second

    def end_second(self) -> None:
        """Log for each name the number of events that were left out; begin a new second."""
        counts, self._counts = self._counts, {}
        for name, count in counts.items():
            if count > self._per_second:
                event(_logger, "events_left_out", what=name, count=count - self._per_second)
