"""Reads of a Raft group's log with entries in memory after a gap in the files, as on a full disk."""

from raftlog.raft import Entry, EntryKind
from raftlog.records import build_batch, read_header, read_records
from raftlog.runtime.log.group_log import GroupLog
from raftlog.storage.gap import REASON_COMPACTED, Gap, build_gap_batch
from raftlog.types import Index, Offset, Term
from tests.runtime.group_twin import GroupTwin


def entry(index: int, batch: bytearray) -> Entry:
    return Entry(Index(index), Term(1), EntryKind.DATA, len(batch), batch)


def test_entries_only_in_memory_are_read_after_a_gap_in_the_files() -> None:
    twin = GroupTwin(0)
    twin.open()
    log = GroupLog(twin.log, 1 << 20)
    log.append([entry(2, bytearray(build_gap_batch(Gap(2, 2, 0, 10, 1, REASON_COMPACTED))))])
    assert log.write()
    log.note_durable(Index(2))
    log.append([entry(3, build_batch([b"newest"]))])
    [batch] = log.read(0, 1 << 20, Offset(11))
    assert read_header(batch).base_offset == 10
    assert [record.value for record in read_records(batch)] == [b"newest"]
    assert log.read(0, 1 << 20, Offset(10)) == []
