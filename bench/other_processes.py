"""Share of the machine that other programs used during a measure; figures from a busy machine are unreliable."""

import os
import time
from pathlib import Path

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS = (3, 4)
"""Fields idle and iowait in the first line of /proc/stat; the guest fields after the eighth are already part of
user."""
_FIELDS = 8


class OtherPrograms:
    """Counter of the CPU time of other programs since its creation.

    Before its reading, all processes of the measure must have been waited for."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._busy_s = _busy_seconds()
        self._own_s = _own_seconds()

    def share(self) -> float:
        """Return the share of all cores' CPU time that others used, 0 … 1; includes steal by the host."""
        elapsed = (time.monotonic() - self._begin) * (os.cpu_count() or 1)
        others = _busy_seconds() - self._busy_s - (_own_seconds() - self._own_s)
        return min(1.0, max(0.0, others / elapsed))


def _busy_seconds() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1 : _FIELDS + 1]
    return sum(int(field) for number, field in enumerate(fields) if number not in _IDLE_FIELDS) / _CLOCK_TICKS


def _own_seconds() -> float:
    """Return the CPU seconds of this process and of all its ended descendants that were waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
