"""Counter of the device's flush commands, from the kernel's count in /proc/diskstats.

With one request in flight on each connection, one sync answers at most as many requests as there are connections. So
a load of N requests that were all answered durably makes at least N ÷ connections flushes, independently of the
server's own count. The count is the device's and includes syncs of other programs: the bound can be too low on a busy
machine, never too high. Not every device counts (partitions, mappers, disks without a write cache), so a trial run
checks it first."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import require

_TRIED_SYNCS = 20
_FLUSHES_FIELD = 18


class Flushes:
    """Number of flushes, set in `made` when the block ends; `None` if the device does not count them."""

    def __init__(self) -> None:
        self.made: int | None = None

    def require_at_least(self, count: float) -> dict[str, float | str]:
        """Return the number for the report; raise `MeasureFailed` if it is too small for durable answers."""
        if self.made is None:
            return {"device_flushes": "not counted by this device"}
        require(self.made >= count, f"the device was flushed {self.made} times, durable answers need {count:.0f}")
        return {"device_flushes": self.made, "device_flushes_needed": count}


@contextmanager
def count_flushes(directory: Path) -> Iterator[Flushes]:
    """Count the flushes of the device below `directory` while the block runs."""
    flushes = Flushes()
    before = _read_count(directory) if has_flush_count(directory) else None
    yield flushes
    after = _read_count(directory)
    if before is not None and after is not None:
        flushes.made = after - before


def has_flush_count(directory: Path) -> bool:
    """Return whether the device's count includes the syncs of a growing file."""
    before = _read_count(directory)
    with tempfile.TemporaryFile(dir=directory) as file:
        for number in range(_TRIED_SYNCS):
            os.pwrite(file.fileno(), b"x" * 4096, number * 4096)
            os.fdatasync(file.fileno())
    after = _read_count(directory)
    return before is not None and after is not None and after - before >= _TRIED_SYNCS


def _read_count(directory: Path) -> int | None:
    """Return the flushes of the directory's device since boot; None if the kernel does not count them."""
    device = os.stat(directory).st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if (int(fields[0]), int(fields[1])) == (os.major(device), os.minor(device)):
            return int(fields[_FLUSHES_FIELD]) if len(fields) > _FLUSHES_FIELD else None
    return None
