"""Leftovers: closed segments of a group's log that lie wholly below its log start, and are to be deleted."""

from bisect import bisect_right

from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Offset


def end_of_leftovers(log: SegmentedLog, applied: Index) -> Offset | None:
    """Return the end offset of the closed segments that lie completely below the log start; None without any.

    Never above a roll that is not committed, or is not written yet: a cut of that roll would leave no log at all."""
    segments = log.segments
    removed = log.segments_below(log.log_start_offset)
    while removed and segments[len(removed)].base_index > applied:
        removed = removed[:-1]
    return Offset(segments[len(removed)].base_offset) if removed else None


def has_leftovers(log: SegmentedLog) -> bool:
    """Return whether closed segments lie completely below the log start."""
    segments = log.segments
    return len(segments) > 1 and segments[1].base_offset <= log.log_start_offset


def has_roll_at(log: SegmentedLog, offset: int, applied: Index) -> bool:
    """Return whether a segment with a committed roll begins at this offset."""
    segments = log.segments
    at = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return at >= 0 and segments[at].base_offset == offset and segments[at].base_index <= applied
