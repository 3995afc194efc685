"""Time for replicas that read their logs after a start: one slice after another, and the loop is free in between.

    a slice ≤ `_SLICE_S` or one read, and after it as long a pause

Shared by the replicas of a process, which take turns.
"""

import asyncio
import logging
from typing import Final, Protocol

from raftlog.errors import RaftlogError

_logger = logging.getLogger(__name__)
_SLICE_S: Final = 0.002
_READS_MAX: Final = 64
"""Bounds a slice where the clock stands still meanwhile."""
_DAMAGE_PAUSE_S: Final = 1.0
"""Before what was damaged is read again; it is being repaired."""


class LogReader(Protocol):
    """Somebody who has something to read."""

    @property
    def is_behind(self) -> bool:
        """There is something to read now."""
        ...

    def read_some(self) -> None:
        """Read on, a little; raises `RaftlogError`."""
        ...


class Loading:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: dict[LogReader, None] = {}
        """Who waited longest stands first."""
        self._is_due = False

    def want(self, reading: LogReader) -> None:
        """It has something to read."""
        self._waiting[reading] = None
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._slice)

    def _slice(self) -> None:
        loop = asyncio.get_running_loop()
        began, reads = loop.time(), 0
        reading = next(iter(self._waiting))
        del self._waiting[reading]
        try:
            while reading.is_behind and reads < _READS_MAX and loop.time() < began + _SLICE_S:
                reading.read_some()
                reads += 1
        except RaftlogError as error:
            _logger.error("what is known of producers does not go on for now: %s", error)
            loop.call_later(_DAMAGE_PAUSE_S, self.want, reading)
        else:
            if reading.is_behind:
                self._waiting[reading] = None
        finally:  # whatever one of them met, the others go on
            self._is_due = bool(self._waiting)
            if self._is_due:
                loop.call_later(loop.time() - began, self._slice)
