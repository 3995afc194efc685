"""Terms of a log's entries by offset, and the offsets at which terms end: Kafka's leader epochs (KIP-101, KIP-320).

    a term's end = offset of the first entry of a later term, or of the next record

Found by binary search over the entries, whose terms and offsets never fall: some twenty index rows are read. Where
compaction has removed the border between two terms, the end is an upper bound: committed records are never cut off, so
a reader must not take it for a truncation. Called by the partition's leader."""

from bisect import bisect_right

from raftlog.runtime.log.group_log import GroupLog
from raftlog.types import Index, Offset, Term


def _first_index(log: GroupLog) -> Index:
    """Return the index of the first stored entry, compacted or not; the next index for an empty log."""
    segments = log.segments.segments
    return Index(segments[0].base_index if segments else log.last_index + 1)


def _term_of(log: GroupLog, index: int) -> Term:
    """Return the term of an entry; it may be removed by compaction, but not trimmed."""
    if index >= log.boundary.index:
        return log.term_at(Index(index))
    return Term(log.segments.row_at(Index(index)).term)


def term_of_record(log: GroupLog, offset: int) -> Term | None:
    """Return the term of the record at an offset; None when the log has no such record.

    Raises `CorruptBatch` and `DescriptorsExhausted`."""
    first = _first_index(log)
    entries = range(first, log.last_index + 1)
    at = bisect_right(entries, offset, key=lambda index: log.offset_of(Index(index))) - 1
    if at < 0 or offset >= log.next_offset:
        return None
    return _term_of(log, entries[at])


def end_of_term(log: GroupLog, term: int) -> tuple[Term, Offset]:
    """Return the highest term up to `term` that has entries in the log, and its end; `term` itself if none has.

    Raises `CorruptBatch` and `DescriptorsExhausted`."""
    first = _first_index(log)
    entries = range(first, log.last_index + 1)
    at = bisect_right(entries, term, key=lambda index: _term_of(log, index))
    found = _term_of(log, entries[at - 1]) if at else Term(term)
    if at == len(entries):
        return found, log.next_offset
    return found, _find_border(log, Index(entries[at]), is_first=at == 0)


def _find_border(log: GroupLog, index: Index, *, is_first: bool) -> Offset:
    """Return the first offset of entry `index`, or the one after the gap that replaces this and other entries."""
    if is_first or index > log.segments.last_index:
        return log.offset_of(index)
    segment = log.segments.segment_of_index(index)
    if not segment.missing:
        return log.offset_of(index)
    number = segment.number_of(index)
    begins = segment.index_of(number)
    ends = segment.index_of(number + 1) if number + 1 < segment.rows else segment.next_index
    return log.offset_of(Index(ends if ends - begins > 1 else index))
