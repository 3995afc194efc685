"""The `.timeindex` of a segment: sparse and disposable.

Each entry means: up to row `row` of the segment, the highest record timestamp is `timestamp`. Timestamps never fall
from entry to entry, so the first batch that reaches a time comes after the last entry below it. A closed segment's
last entry covers all of its rows; a short or damaged file is rebuilt from the batches. It is synced with each
checkpoint: an entry that survives a power loss could otherwise refer to a batch that is no longer there.

    position  size  field
           0     8  timestamp (int64, ms)
           8     8  row
          16     4  CRC-32C over the 16 bytes above"""

import errno
import struct
from typing import NamedTuple

from crc32c import crc32c

from raftlog.storage.changes import Changes
from raftlog.storage.disk import File

ENTRY_SIZE = 20
SPACING_BYTES = 64 * 1024
"""Number of log bytes between two entries."""
NO_TIMESTAMP = -1
_ENTRY = struct.Struct(">qQI")
_CHECKED = struct.Struct(">qQ")


class TimeEntry(NamedTuple):
    """Entry of a time index: highest timestamp in rows 0 … `row`."""

    timestamp: int
    row: int


class TimeIndex:
    """Time index of one segment: entries in the file, and entries that wait for the next write."""

    def __init__(self, file: File, count: int) -> None:
        """Wrap an open file with `count` entries."""
        self._file = file
        self._count = count
        self._waiting: list[TimeEntry] = []
        self._next_position = 0
        self.max_timestamp = NO_TIMESTAMP
        """Highest observed timestamp; at least that of the last entry."""
        self.changes = Changes()
        """Changes of the file."""

    @property
    def file(self) -> File:
        return self._file

    def observe(self, timestamp: int, row: int, position: int) -> None:
        """Record a batch appended at `position`; add an entry if the last one is `SPACING_BYTES` away.

        An entry is added even if the maximum has not risen, because reopening reads all headers after the last entry.
        """
        self.max_timestamp = max(timestamp, self.max_timestamp)
        if position >= self._next_position:
            self._add_entry(self.max_timestamp, row)
            self._next_position = position + SPACING_BYTES

    def close(self, last_row: int) -> None:
        """Add an entry for the whole segment, which gets no more batches; the next write includes it."""
        self._add_entry(self.max_timestamp, last_row)

    def write(self, rows: int) -> None:
        """Write the entries of the first `rows` rows; never synced separately."""
        due = [entry for entry in self._waiting if entry.row < rows]
        if not due:
            return
        self.changes.count()
        self._file.write(self._count * ENTRY_SIZE, [b"".join(_pack(entry) for entry in due)])
        self._count += len(due)
        self._waiting = [entry for entry in self._waiting if entry.row >= rows]

    def drop_from(self, rows: int) -> None:
        """Remove unwritten entries for rows from `rows` on; the maximum stays, and may be too high afterwards."""
        self._waiting = [entry for entry in self._waiting if entry.row < rows]

    def row_before(self, timestamp: int) -> int:
        """Return the last row up to which, according to the entries, all timestamps are below `timestamp`; −1: none."""
        low, high = 0, self._count
        best = -1
        while low < high:
            middle = (low + high) // 2
            entry = self._read_entry(middle)
            if entry is None or entry.timestamp >= timestamp:
                high = middle
            else:
                best = entry.row
                low = middle + 1
        for entry in self._waiting:
            if entry.timestamp < timestamp:
                best = max(best, entry.row)
        return best

    def adopt_last(self, last_row: int) -> bool:
        """Take the maximum from the file of a closed segment; return False if the file cannot be trusted."""
        entry = self._read_entry(self._count - 1) if self._count else None
        if entry is None or entry.row != last_row:
            return False
        self.max_timestamp = entry.timestamp
        return True

    def keep_below(self, rows: int, max_timestamp: int, position: int) -> None:
        """Keep the entries of the first `rows` rows, whose highest timestamp and end position are given."""
        self._truncate(len(self._sound_entries(rows)))
        self._waiting.clear()
        self.max_timestamp = max_timestamp
        self._next_position = position

    def keep_rows(self, rows: int) -> int:
        """Keep the entries of the first `rows` rows; return the last row that they cover, −1 without any.

        `max_timestamp` becomes that of the rows up to the returned one; the caller calls `observe` for later rows."""
        kept = self._sound_entries(rows)
        self._truncate(len(kept))
        self._waiting = [entry for entry in self._waiting if entry.row < rows]
        last = max((*kept[-1:], *self._waiting[-1:]), key=lambda entry: entry.row, default=None)
        self.max_timestamp = last.timestamp if last else NO_TIMESTAMP
        self._next_position = 0
        return last.row if last else -1

    def covers(self, timestamp: int, row: int) -> bool:
        """Return whether the first entry that covers `row` has at least `timestamp`; otherwise the index is wrong."""
        entries = (*self._sound_entries(1 << 62), *self._waiting)
        first = next((entry for entry in entries if entry.row >= row), None)
        return timestamp <= (first.timestamp if first else self.max_timestamp)

    def _sound_entries(self, rows: int) -> list[TimeEntry]:
        """Return the entries of the first `rows` rows in the file, up to the first damaged entry."""
        packed = self._read(0, self._count * ENTRY_SIZE)
        found = []
        for at in range(0, len(packed) - ENTRY_SIZE + 1, ENTRY_SIZE):
            timestamp, row, checksum = _ENTRY.unpack_from(packed, at)
            if row >= rows or checksum != crc32c(packed[at : at + _CHECKED.size]):
                break
            found.append(TimeEntry(timestamp, row))
        return found

    def restart(self) -> None:
        """Remove all entries, because the segment is read again from its first batch."""
        self._truncate(0)
        self._waiting.clear()
        self._next_position = 0
        self.max_timestamp = NO_TIMESTAMP

    def _truncate(self, count: int) -> None:
        """Cut the file to `count` entries."""
        if self._file.size() != count * ENTRY_SIZE:
            self.changes.count()
            self._file.truncate(count * ENTRY_SIZE)
        self._count = count

    def _add_entry(self, timestamp: int, row: int) -> None:
        """Add an entry that is not written yet."""
        self._waiting.append(TimeEntry(timestamp, row))

    def _read_entry(self, number: int) -> TimeEntry | None:
        """Return entry `number` of the file; None if it is damaged or missing."""
        packed = self._read(number * ENTRY_SIZE, ENTRY_SIZE)
        if len(packed) < ENTRY_SIZE:
            return None
        timestamp, row, checksum = _ENTRY.unpack(packed)
        return TimeEntry(timestamp, row) if checksum == crc32c(packed[: _CHECKED.size]) else None

    def _read(self, position: int, size: int) -> bytes:
        """Read from the file; bytes that the disk cannot read are missing, like those of a file that is too short."""
        try:
            return self._file.read(position, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""


def _pack(entry: TimeEntry) -> bytes:
    """Return the bytes of an entry, with its CRC."""
    checked = _CHECKED.pack(*entry)
    return checked + struct.pack(">I", crc32c(checked))
