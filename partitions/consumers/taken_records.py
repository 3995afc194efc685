"""Part of a fetched partition that fits into one answer. Pure, but other tasks run in between.

Bytes are counted as the REST Proxy does: those of keys and values, before they become JSON. An answer ends inside a
batch when necessary, so it has at most `room` bytes, or one record (`at_least_one`). A batch that cannot be decoded
is not delivered: the answer ends before it, and the next one is an error that names the offset to continue at."""

from collections.abc import Generator, Iterable
from typing import NamedTuple

from raftlog.errors import UndecodableBatch
from raftlog.records import Record, read_header, read_records
from raftlog.records.header import CONTROL_BIT
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.runtime.slices import Slices, run_in_slices
from raftlog.types import Buffer, Offset

_RECORDS_PER_SLICE = 500
"""Records counted before other tasks run."""


class TakenRecords(NamedTuple):
    """Records from `offset` to `end` (exclusive), in the stored batches that contain them."""

    offset: Offset
    end: Offset
    batches: list[Buffer]
    records: int
    size: int
    """Bytes of keys and values."""
    leader_epoch: int
    """Leader epoch of the last batch; −1 without one."""

    @property
    def stored_bytes(self) -> int:
        return sum(map(len, self.batches))


async def take_records(
    batches: Iterable[Buffer], offset: Offset, room: int, opener: BatchOpener, *, at_least_one: bool = True
) -> TakenRecords:
    """Return the records from `offset` on that fit into `room` bytes of the answer.

    Raises `UndecodableBatch` when the very first record cannot be decoded."""
    taken: list[Buffer] = []
    end, records, size, epoch = offset, 0, 0, -1
    slices = Slices()
    for batch in batches:
        await slices.pause_if_over()
        header = read_header(batch)
        if header.next_offset <= offset:
            continue
        if header.attributes & CONTROL_BIT:  # a gap
            end = Offset(header.next_offset)
            continue
        begin = Offset(max(offset, header.base_offset))
        counted = _RecordCounter(begin, room - size, is_first=at_least_one and not records)
        try:
            await run_in_slices(counted.count(await opener.open(batch)))
        except UndecodableBatch as error:
            counted.stop_at(error)
        if counted.records:
            taken.append(batch)
            records, size, epoch = records + counted.records, size + counted.size, header.leader_epoch
        if counted.next_offset is not None:  # full, or the next record cannot be decoded
            if counted.broken is not None and not records:
                raise counted.broken
            return TakenRecords(offset, counted.next_offset, taken, records, size, epoch)
        end = Offset(header.next_offset)
    return TakenRecords(offset, end, taken, records, size, epoch)


class _RecordCounter:
    """Counter of the records of one batch that fit into the answer, from offset `begin` on."""

    def __init__(self, begin: Offset, room: int, *, is_first: bool) -> None:
        """Count records of a batch from offset `begin` on that fit into `room` bytes.

        With `is_first` one record always fits."""
        self.records = self.size = 0
        self.next_offset: Offset | None = None
        """First offset of the next answer, once this one ends inside the batch."""
        self.broken: UndecodableBatch | None = None
        """Error of the batch, if one of its records cannot be decoded."""
        self._begin, self._room, self._is_first = begin, room, is_first
        self._last = begin

    def count(self, opened: Buffer) -> Generator[None, None, None]:
        """Count until the end or until the room is full. Raises `UndecodableBatch`."""
        for seen, record in enumerate(read_records(opened), 1):
            if record.offset >= self._begin and not self._count_if_fits(record):
                return
            if seen % _RECORDS_PER_SLICE == 0:
                yield

    def stop_at(self, error: UndecodableBatch) -> None:
        """End the answer before a record that cannot be decoded."""
        self.broken, self.next_offset = error, self._last

    def _count_if_fits(self, record: Record) -> bool:
        """Count a record if it fits, or is the first of the answer; else end the answer before it and return False."""
        size = len(record.key or b"") + len(record.value or b"")
        if self.size + size > self._room and not (self._is_first and not self.records):
            self.next_offset = Offset(record.offset)
            return False
        self.records, self.size = self.records + 1, self.size + size
        self._last = Offset(record.offset + 1)
        return True
