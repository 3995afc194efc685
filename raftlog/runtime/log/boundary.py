"""The entry before the first one of a log that can be had by index: what stands below was trimmed away or compacted.

Every segment's roll says the term of the entry before it. Called by the group log, and by those who give it away.
"""

from raftlog.raft import EntryId
from raftlog.raft.entry import ORIGIN
from raftlog.storage.recovery import read_roll
from raftlog.storage.segment import Segment
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Term


def boundary_of(segments: SegmentedLog) -> EntryId:
    """The boundary, as the files have it."""
    if not segments.segments or segments.uncompacted_from.base_index <= 1:
        return ORIGIN
    first = segments.uncompacted_from
    # Damaged: what stands before it is committed, so nobody will ask with another term than the right one, and this
    # replica asks nobody until it is repaired.
    return entry_before(first) or EntryId(Index(first.base_index - 1), Term(first.row(0).term))


def uncompacted_from(segments: SegmentedLog) -> Index:
    """The first entry that is in the files as it was appended, with all behind it; from the boundary on at the latest:
    that rises when a compaction begins, before any file is another."""
    return Index(segments.uncompacted_from.base_index) if segments.segments else Index(1)


def entry_before(segment: Segment) -> EntryId | None:
    """The entry before a segment, as its roll says; `None` where that is damaged. Raises `OSError`."""
    roll = read_roll(segment)
    return EntryId(Index(segment.base_index - 1), Term(roll.previous_term)) if roll else None
