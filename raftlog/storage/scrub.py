"""Background scrub: it reads every batch periodically and finds damage below the checkpoint.

It runs slice by slice, so that its owner controls its share of disk and time. A damaged index row with an undamaged
batch is rewritten from the batch; a damaged batch is reported, and the log refuses appends."""

from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.storage.index_repair import repair_row
from raftlog.storage.segment import Segment
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Offset


class ScrubProgress(NamedTuple):
    """Result of checking one slice of a log.

    `has_finished`: the check reached the end of the log, and the next slice begins at the start."""

    bytes_read: int
    has_finished: bool
    damage: CorruptBatch | None


class Scrub:
    """Check of all stored batches of one log, in slices; holds the position of the next slice."""

    def __init__(self, log: SegmentedLog) -> None:
        self._log = log
        self._offset = Offset(0)
        """Base offset of the segment that is being read."""
        self._row = 0

    def has_log(self, log: SegmentedLog) -> bool:
        """Return whether this is the scrub of `log`."""
        return self._log is log

    def run_slice(self, max_bytes: int) -> ScrubProgress:
        """Check batches of about `max_bytes`, at least one; raises `OSError` if the disk cannot be read."""
        segment = self._log.segment_of_offset(max(self._offset, self._log.log_start_offset))
        if segment.base_offset != self._offset:
            self._offset, self._row = Offset(segment.base_offset), 0
        read = 0
        for number, row, batch, reason in self._log.walk(segment, self._row):
            if row.index > self._log.durable_index:
                break
            self._row = number + 1
            read += len(batch)
            if reason and not repair_row(segment, number):
                return ScrubProgress(read, False, self._log.corruption_error(segment, row, reason))
            if read >= max_bytes:
                return ScrubProgress(read, False, None)
        return ScrubProgress(read, self._next_segment(segment), None)

    def _next_segment(self, segment: Segment) -> bool:
        """Continue with the next segment; return True if `segment` is the last one."""
        newer = next((other for other in self._log.segments if other.base_offset > segment.base_offset), None)
        self._offset, self._row = Offset(newer.base_offset if newer else 0), 0
        return newer is None
