"""Segmented log of a replica: entries by index, replicated rolls, cuts without syncs, unwritten rows."""

import uuid
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import CorruptBatch
from raftlog.records import NewRecord, build_batch, build_control_batch, read_header, stamp
from raftlog.records.control import ControlKind
from raftlog.storage.roll import Roll, encode_roll
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Offset, Term

PATH = "/data/t/0"
GROUP = uuid.UUID(int=5)


class Replica:
    """Segmented log with a list of its expected entries."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.disk.make_directory(PATH)
        self.log = SegmentedLog(self.disk, PATH, (), Offset(0))
        self.entries: list[bytes] = []

    def roll(self, term: int) -> None:
        offset = self.log.next_offset
        roll = Roll(GROUP, len(self.entries) + 1, 0, 0, -1, 1_000)
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), 1_000, next_offset=offset)
        stamp(batch, offset, Term(term))
        self.log.begin_segment(bytes(batch), read_header(batch), roll, Term(term))
        self.entries.append(bytes(batch))

    def append(self, term: int, size: int = 10, count: int = 1, timestamp: int = 5) -> None:
        for _ in range(count):
            batch = build_batch([NewRecord(len(self.entries).to_bytes(8) + bytes(size), timestamp=timestamp)])
            stamp(batch, self.log.next_offset, Term(term))
            self.log.append_stamped(memoryview(bytes(batch)), read_header(batch))
            self.entries.append(bytes(batch))

    def write(self, *, publish: bool = False) -> None:
        self.log.write()
        self.log.mark_durable(self.log.last_index, publish=publish)

    def cut(self, index: int) -> None:
        self.log.cut_to_index(Index(index))
        del self.entries[index:]

    def check(self) -> None:
        """Check that the log has exactly the appended entries."""
        log = self.log
        assert log.last_index == len(self.entries)
        found: list[bytes] = []
        while len(found) < log.last_index:
            read = log.read_entries(Index(len(found) + 1), log.last_index, 4000)
            assert [row.index for row, _ in read] == list(range(len(found) + 1, len(found) + len(read) + 1))
            found += [bytes(batch) for _, batch in read]
        assert found == self.entries
        for index in range(1, len(found) + 1):
            assert log.row_at(Index(index)) == log.check_row_at(Index(index))
            assert log.row_at(Index(index)).term == read_header(found[index - 1]).leader_epoch
        logs = [data for name, data in self.disk.snapshot().items() if name.endswith(".log")]
        assert b"".join(logs) == b"".join(self.entries)


def make_three_segments(*, publish: bool) -> Replica:
    r = Replica()
    for term in (1, 2, 3):
        r.roll(term)
        r.append(term, count=5)
        r.write(publish=publish)
    return r


def test_an_empty_log_ends_at_index_0_and_at_its_start() -> None:
    disk = SimulatedDisk(Random(1))
    disk.make_directory(PATH)
    log = SegmentedLog(disk, PATH, (), Offset(7))
    log.mark_durable(Index(0))
    assert (log.last_index, log.next_offset, log.durable_offset, log.size_bytes) == (0, 7, 7, 0)
    assert log.read(7, 100) == []
    log.cut_to_index(Index(0))
    log.write()
    assert log.list_changes_since_checkpoint() == ([], [], [])


@pytest.mark.parametrize("publish", [False, True])
def test_entries_are_read_by_index_with_rows_in_memory_or_files(publish: bool) -> None:
    r = make_three_segments(publish=publish)
    rows = [len(data) for name, data in r.disk.snapshot().items() if name.endswith(".index")]
    assert rows == ([6 * ROW_SIZE] * 3 if publish else [0, 0, 0])
    r.check()
    assert len(r.log.read_entries(Index(3), Index(18), 1)) == 1, "at least one"
    assert len(r.log.read_entries(Index(3), Index(18), 1 << 20)) == 4, "up to the segment's end"
    assert len(r.log.read_entries(Index(3), Index(4), 1 << 20)) == 2
    r.log.publish_rows(r.log.last_index)
    r.check()


def test_only_written_entries_are_read() -> None:
    r = make_three_segments(publish=False)
    r.append(3, count=2)
    assert len(r.log.read_entries(Index(17), Index(20), 1 << 20)) == 2
    with pytest.raises(AssertionError, match="bytes are written"):
        r.log.read_entries(Index(19), Index(20), 100)


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("index", range(19))
def test_a_cut_keeps_lower_entries_and_appends_continue_there(index: int, publish: bool) -> None:
    r = make_three_segments(publish=publish)
    syncs = r.disk.sync_count
    r.cut(index)
    r.check()
    assert r.disk.sync_count == syncs
    assert len(r.log.segments) == -(-index // 6)
    if index == 0:
        assert r.disk.list_directory(PATH) == []
        r.roll(0)
    r.append(4, count=3)
    r.write(publish=publish)
    r.check()
    if r.log.next_offset > r.log.active.base_offset:
        r.roll(5)
        r.append(5)
        r.write(publish=True)
        r.check()
    assert r.log.published_index == r.log.last_index or not publish


@pytest.mark.parametrize("kept", range(6, 10))
def test_a_cut_among_unwritten_entries_keeps_lower_ones(kept: int) -> None:
    r = Replica()
    r.roll(0)
    r.append(1, count=5)
    r.log.write()
    r.append(1, count=4)
    r.cut(kept)
    r.append(2)
    r.log.write()
    r.check()


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_cut_removes_entries_of_the_time_index(unreadable: bool) -> None:
    r = Replica()
    r.roll(0)
    r.append(1, count=5, timestamp=2_000)
    r.append(1, count=5, timestamp=9_000)
    r.write(publish=True)
    r.append(1, count=2, timestamp=20_000)
    if unreadable:
        r.disk.fail_read(r.log.active.files.times.path, 0)
    r.cut(6)
    assert r.log.active.times.max_timestamp == 2_000
    r.append(2, timestamp=3_000)
    r.write(publish=True)
    assert r.log.offset_for_timestamp(2_500) == (5, 3_000)
    assert r.log.offset_for_timestamp(4_000) is None


def test_a_checkpoint_syncs_changes_and_counts_later_ones() -> None:
    r = make_three_segments(publish=False)
    log = r.log
    changed = log.list_changes_since_checkpoint()
    assert [file.path[-24:] for file in changed.files] == [f"{base:020d}.log" for base in (0, 5, 10)]
    assert changed.directories == [PATH]
    log.publish_rows(log.last_index)
    changed = log.list_changes_since_checkpoint()
    assert len(changed.files) == 9
    r.append(3)
    r.write()
    log.mark_synced(changed)
    again = log.list_changes_since_checkpoint()
    assert ([file.path for file in again.files], again.directories) == ([log.active.files.log.path], [])
    r.roll(4)
    r.append(4)
    r.write()
    newest = log.list_unsynced_files(Index(20), log.last_index)
    assert [file.path for file in newest.files] == [log.active.files.log.path]
    assert newest.directories == [PATH]
    log.mark_synced(newest)
    assert log.list_unsynced_files(Index(20), log.last_index) == ([], [], [])
    assert len(log.list_changes_since_checkpoint().files) == 1, "an older segment still waits"
    r.cut(19)
    assert log.list_changes_since_checkpoint().directories == [PATH]


def test_a_damaged_batch_is_replaced_only_by_an_identical_one() -> None:
    r = make_three_segments(publish=True)
    row = r.log.row_at(Index(9))
    file = r.log.segment_of_index(9).files.log.path
    r.disk.flip_bit(file, row.position + 70, 3)
    with pytest.raises(CorruptBatch, match="CRC"):
        r.log.read_entries(Index(9), Index(9), 100)
    assert [read[0].index for read in r.log.read_entries(Index(7), Index(12), 1 << 20)] == [7, 8]
    for wrong in (r.entries[9], r.entries[8] + b"x", r.entries[8][:-1], bytes(len(r.entries[8]))):
        with pytest.raises(CorruptBatch, match="does not fit"):
            r.log.repair_batch(Index(9), wrong)
    r.log.mark_synced(r.log.list_changes_since_checkpoint())
    r.log.repair_batch(Index(9), r.entries[8])
    r.check()
    assert [each.path for each in r.log.list_changes_since_checkpoint().files] == [file]


def test_a_rebuilt_entry_ends_where_the_next_one_begins() -> None:
    r = make_three_segments(publish=True)
    segment, row = r.log.segments[1], r.log.row_at(Index(9))
    r.disk.flip_bit(segment.files.index.path, 2 * ROW_SIZE + 3, 1)
    r.disk.flip_bit(segment.files.log.path, row.position + 70, 3)
    shorter, longer = (build_batch([NewRecord(bytes(size), timestamp=5)]) for size in (17, 19))
    for wrong in (shorter, longer):
        stamp(wrong, Offset(row.offset), Term(2))
        with pytest.raises(CorruptBatch, match="does not fit"):
            r.log.rebuild_entry(Index(9), bytes(wrong))
    r.log.rebuild_entry(Index(9), r.entries[8])
    r.check()


def test_durable_entries_stay_durable() -> None:
    r = make_three_segments(publish=True)
    durable = r.log.durable_index, r.log.durable_offset
    r.log.mark_durable(Index(7))
    assert (r.log.durable_index, r.log.durable_offset) == durable


def test_a_read_disturbed_by_a_cut_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    r = make_three_segments(publish=True)
    attempts: list[int] = []
    read = SegmentedLog._read

    def disturbed(log: SegmentedLog, offset: int, max_bytes: int, end: Offset) -> list[memoryview]:
        found = read(log, offset, max_bytes, end)
        attempts.append(len(found))
        if len(attempts) == 1:
            r.cut(15)
            r.log.durable_offset = r.log.next_offset
        return found

    monkeypatch.setattr(SegmentedLog, "_read", disturbed)
    found = r.log.read(10, 1 << 20)
    assert attempts == [5, 2], "the first one saw the removed entries"
    assert len(found) == 2


@pytest.mark.parametrize("field", [0, 7, 15, 23, 31, 35, 39, 43])
def test_a_damaged_row_is_repaired_and_never_trusted(field: int) -> None:
    r = make_three_segments(publish=True)
    r.disk.flip_bit(r.log.segments[1].files.index.path, 3 * ROW_SIZE + field, 2)
    assert r.log.check_row_at(Index(10)).term == 2
    r.check()


def test_an_intact_row_replaces_a_damaged_header() -> None:
    r = make_three_segments(publish=True)
    row = r.log.row_at(Index(9))
    r.disk.flip_bit(r.log.segments[1].files.log.path, row.position + 30, 2)
    assert r.log.check_row_at(Index(9)) == row


def test_a_cut_at_a_damaged_row_is_at_the_right_position() -> None:
    r = make_three_segments(publish=True)
    r.disk.flip_bit(r.log.segments[1].files.index.path, 3 * ROW_SIZE + 31, 2)
    r.cut(9)
    r.check()


def test_a_failed_creation_of_a_segment_changes_nothing() -> None:
    r = make_three_segments(publish=False)
    before = r.disk.snapshot()
    r.disk.open(f"{PATH}/{15:020d}.log", create=True)
    with pytest.raises(FileExistsError):
        r.roll(4)
    r.disk.unlink(f"{PATH}/{15:020d}.log")
    assert r.disk.snapshot() == before
    r.check()
    r.roll(4)
    r.write()
    r.check()
