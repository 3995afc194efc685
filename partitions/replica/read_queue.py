"""Scheduling of the replicas that read their logs after a start: short slices, with pauses for the loop.

    a slice ≤ `_SLICE_S` or one read, and after it as long a pause

Shared by the replicas of a process, which take turns."""

import asyncio
import logging
from typing import Final, Protocol

from raftlog.errors import RaftlogError

_logger = logging.getLogger(__name__)
_SLICE_S: Final = 0.002
_READS_MAX: Final = 64
"""Maximum number of reads in a slice, for a clock that does not advance meanwhile, as in the simulation."""
_DAMAGE_PAUSE_S: Final = 1.0
"""Pause before damaged entries are read again; they are being repaired."""


class LogReader(Protocol):
    """Reader of a log that `ReadQueue` schedules."""

    @property
    def is_behind(self) -> bool:
        """Whether there are entries to read now."""
        ...

    def read_some(self) -> None:
        """Read some entries. Raises `RaftlogError`."""
        ...


class ReadQueue:
    """Queue of the replicas of one process that read their logs in the background, one slice at a time."""

    def __init__(self) -> None:
        self._waiting: dict[LogReader, None] = {}
        """Waiting readers, the longest waiting first."""
        self._is_due = False

    def enqueue(self, reading: LogReader) -> None:
        """Queue a reader that has entries to read."""
        self._waiting[reading] = None
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._run_slice)

    def _run_slice(self) -> None:
        """Let the next reader read for a slice of time; queue it again if it is not at the end."""
        loop = asyncio.get_running_loop()
        began, reads = loop.time(), 0
        reading = next(iter(self._waiting))
        del self._waiting[reading]
        try:
            while reading.is_behind and reads < _READS_MAX and loop.time() < began + _SLICE_S:
                reading.read_some()
                reads += 1
        except RaftlogError as error:
            _logger.error("the state of producers is not read for now: %s", error)
            loop.call_later(_DAMAGE_PAUSE_S, self.enqueue, reading)
        else:
            if reading.is_behind:
                self._waiting[reading] = None
        finally:  # a failure of one reader does not stop the others
            self._is_due = bool(self._waiting)
            if self._is_due:
                loop.call_later(loop.time() - began, self._run_slice)
