"""Compaction of logs with transactions: readers of committed records see the same newest records before and after."""

from random import Random

import pytest

from raftlog.records import (
    ControlKind,
    NewRecord,
    TransactionMarker,
    build_marker_batch,
    read_control,
    read_header,
    read_records,
    stamp,
)
from raftlog.records.build import BatchBuilder
from raftlog.records.header import CRC_START, TRANSACTIONAL_BIT, batch_crc
from raftlog.storage.compaction import CompactionBounds, find_clean_end
from raftlog.types import Offset, Term
from tests.storage.compacting import KeyedLog

FEW_KEYS = CompactionBounds(segment_bytes=4000, segment_rows_max=1000, keys_max=3)
Visible = dict[bytes, tuple[int, bytes | None]]


class TransactionalLog(KeyedLog):
    """Keyed log with transactional producers; `numbers` counts values, so that each is written once."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0
        self.aborted: set[int] = set()
        """Offsets of records of aborted transactions."""
        self._opened: dict[int, list[int]] = {}

    def write(self, producer: int | None, *keys: bytes) -> None:
        """Append a batch with new values of these keys, in the producer's transaction if one is given."""
        builder = BatchBuilder(producer_id=producer or 0, producer_epoch=0, base_sequence=0)
        for key in keys:
            self.numbers += 1
            builder.append(NewRecord(b"%d" % self.numbers, key, 10_000 + self.numbers), 0)
        batch = builder.build()
        if producer is not None:
            first = self.log.next_offset
            self._opened.setdefault(producer, []).extend(range(first, first + len(keys)))
            batch[CRC_START + 1] |= TRANSACTIONAL_BIT
            batch[17:21] = batch_crc(batch).to_bytes(4, "big")
        self._append(batch)

    def end(self, producer: int, *, is_commit: bool) -> None:
        offsets = self._opened.pop(producer, [])
        self.aborted.update(() if is_commit else offsets)
        self._append(build_marker_batch(TransactionMarker(producer, 0, is_commit, 1), 5))

    def _append(self, batch: bytearray) -> None:
        stamp(batch, self.log.next_offset, Term(self.term))
        self.log.append_stamped(bytes(batch), read_header(batch))

    def markers(self) -> list[tuple[int, int, bool]]:
        """Return offset, producer and kind of the stored markers."""
        found = []
        for batch in self.batches():
            header = read_header(batch)
            if header.is_marker:
                is_abort = read_control(batch)[0] is ControlKind.ABORT
                found.append((header.base_offset, header.producer_id, is_abort))
        return found

    def batches(self) -> list[memoryview]:
        """Return all batches that readers get."""
        found: list[memoryview] = []
        offset: int = self.log.log_start_offset
        while offset < self.log.durable_offset and (some := self.log.read(offset, 500)):
            found += some
            offset = read_header(some[-1]).next_offset
        return found

    def visible(self) -> Visible:
        """Return the newest committed record of each key, by the markers and the compacted parts of segments."""
        newest: Visible = {}
        pending: dict[int, Visible] = {}
        for batch in self.batches():
            header = read_header(batch)
            segment = self.log.segment_of_offset(header.base_offset)
            is_decided = segment.is_compacted and header.base_offset < segment.compacted_to
            if header.is_marker:
                ended = pending.pop(header.producer_id, {})
                if read_control(batch)[0] is ControlKind.COMMIT:
                    add_newer(newest, ended)
                continue
            records = {record.key or b"": (record.offset, record.value) for record in read_records(batch)}
            if header.is_transactional and not is_decided:
                pending.setdefault(header.producer_id, {}).update(records)
            else:
                add_newer(newest, records)
        return newest


def add_newer(newest: Visible, records: Visible) -> None:
    for key, found in records.items():
        newest[key] = max(found, newest.get(key, (-1, None)))


@pytest.mark.parametrize("seed", range(60))
def test_readers_of_committed_records_see_the_same_before_and_after(seed: int) -> None:
    random = Random(seed)
    keyed = TransactionalLog()
    bounds = random.choice([FEW_KEYS, CompactionBounds(4000, 1000)])
    opened: dict[int, int] = {}
    for _ in range(4):
        for _ in range(random.randrange(3, 25)):
            choice = random.random()
            keys = [b"k%d" % random.randrange(5) for _ in range(random.randrange(1, 3))]
            producer = random.choice((7, 8, 9))
            if choice < 0.3:
                keyed.write(None, *keys)
            elif choice < 0.7:
                opened.setdefault(producer, keyed.log.next_offset)
                keyed.write(producer, *keys)
            elif opened.pop(producer, None) is not None or choice > 0.95:
                keyed.end(producer, is_commit=random.random() < 0.5)
            if random.random() < 0.2 and keyed.log.next_offset > keyed.log.active.base_offset:
                keyed.roll()
        if keyed.log.next_offset > keyed.log.active.base_offset:
            keyed.roll()
        keyed.settle()
        stable = min(opened.values(), default=keyed.log.next_offset)
        mark = max(each.base_offset for each in keyed.log.segments if each.base_offset <= stable)
        before = keyed.visible()
        compaction = keyed.compaction_below(Offset(mark), bounds)
        for step in compaction.run():
            keyed.disk.sync(step.files, step.directories)
        assert keyed.visible() == before
        check_stored_records(keyed, before, mark)
    for producer in list(opened):
        keyed.end(producer, is_commit=random.random() < 0.5)


def check_stored_records(keyed: TransactionalLog, visible: Visible, mark: int) -> None:
    """Check that below the mark only the newest committed record of each key is stored, and the last one."""
    clean_end = find_clean_end(keyed.log)
    assert clean_end >= mark
    newest = {offset for offset, _ in visible.values()}
    by_key: dict[bytes, int] = {}
    for batch in keyed.batches():
        for record in () if read_header(batch).is_control else read_records(batch):
            assert record.offset >= clean_end or record.offset not in keyed.aborted
            if record.offset < mark - 1:
                assert record.key not in by_key or record.offset in newest, f"two records of {record.key!r}"
                by_key[record.key or b""] = record.offset


def test_markers_outlive_their_records_as_long_as_tombstones() -> None:
    keyed = TransactionalLog()
    keyed.write(7, b"a")
    keyed.end(7, is_commit=False)
    keyed.write(8, b"b")
    keyed.end(8, is_commit=True)
    keyed.write(None, b"c")
    keyed.roll()
    keyed.compact()
    assert keyed.markers() == [(1, 7, True), (3, 8, False)]
    assert keyed.visible() == {b"b": (2, b"2"), b"c": (4, b"3")}
    keyed.write(None, b"d")
    keyed.roll()
    keyed.compact()
    assert keyed.markers() == []
    assert keyed.visible() == {b"b": (2, b"2"), b"c": (4, b"3"), b"d": (5, b"4")}


def test_a_marker_above_the_mark_decides() -> None:
    keyed = TransactionalLog()
    keyed.write(None, b"a")
    keyed.write(7, b"a")
    keyed.write(8, b"b")
    keyed.roll()
    keyed.end(7, is_commit=False)
    keyed.end(8, is_commit=True)
    keyed.settle()
    mark = keyed.log.active.base_offset
    for step in keyed.compaction_below(Offset(mark), FEW_KEYS).run():
        keyed.disk.sync(step.files, step.directories)
    assert keyed.visible() == {b"a": (0, b"1"), b"b": (2, b"3")}


def test_an_aborted_batch_at_the_mark_leaves_an_empty_one() -> None:
    keyed = TransactionalLog()
    keyed.write(None, b"a")
    keyed.write(7, b"a", b"b")
    keyed.roll()
    keyed.end(7, is_commit=False)
    keyed.settle()
    for step in keyed.compaction_below(Offset(3), FEW_KEYS).run():
        keyed.disk.sync(step.files, step.directories)
    last = read_header(keyed.batches()[1])
    assert (last.base_offset, last.next_offset, last.record_count) == (1, 3, 0)
    assert keyed.visible() == {b"a": (0, b"1")}


def test_an_unsound_mark_leaves_an_open_transaction_alone() -> None:
    keyed = TransactionalLog()
    keyed.write(None, b"a")
    keyed.roll()
    keyed.write(7, b"a")
    keyed.roll()
    keyed.write(None, b"b")
    keyed.settle()
    for step in keyed.compaction_below(Offset(2), FEW_KEYS).run():
        keyed.disk.sync(step.files, step.directories)
    keyed.end(7, is_commit=False)
    keyed.settle()
    assert keyed.visible() == {b"a": (0, b"1"), b"b": (2, b"3")}
