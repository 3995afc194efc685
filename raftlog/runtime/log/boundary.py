"""Boundary of a log: the entry before the first one that can be read by index; those below are trimmed or compacted.

Every segment's roll has the term of the entry before it. Called by the group log, and by the senders of logs."""

from raftlog.raft import EntryId
from raftlog.raft.entry import ORIGIN
from raftlog.storage.recovery import read_roll
from raftlog.storage.segment import Segment
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Term


def boundary_of(segments: SegmentedLog) -> EntryId:
    """Return the boundary of a log, as read from its files."""
    if not segments.segments or segments.first_uncompacted_segment.base_index <= 1:
        return ORIGIN
    first = segments.first_uncompacted_segment
    # Damaged: the entry before it is committed, so no replica requests it with a wrong term, and this replica sends
    # no requests to others until it is repaired.
    return previous_entry_id(first) or EntryId(Index(first.base_index - 1), Term(first.row(0).term))


def find_first_uncompacted(segments: SegmentedLog) -> Index:
    """Return the index of the first entry that, like all later ones, is stored as it was appended.

    A replica raises its boundary (see the module) when a compaction begins, before it replaces any file. Until the
    files are replaced, this index can be lower than the one after the boundary; it is never higher."""
    return Index(segments.first_uncompacted_segment.base_index) if segments.segments else Index(1)


def previous_entry_id(segment: Segment) -> EntryId | None:
    """Return the id of the entry before a segment, from the segment's roll entry; None if that is damaged.

    Raises `OSError`."""
    roll = read_roll(segment)
    return EntryId(Index(segment.base_index - 1), Term(roll.previous_term)) if roll else None
