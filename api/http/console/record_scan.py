"""Scan of one partition for the console: fetches batches, and shows the records that pass the filter.

    held by one scan ≤ one fetch, one batch of it decompressed, and the shown records; all charged to `memory`

A scan continues when the leader changes, because it needs only the next offset. Its caller stops it. Called by
`records` and `record_tail`."""

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Final

from raftlog.api.http.console.shown_records import RecordFilter, show_record, shown_size
from raftlog.api.http.server.answer_memory import AnswerMemory
from raftlog.errors import UndecodableBatch
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import Fetched
from raftlog.records import Record, read_header, read_records
from raftlog.runtime.slices import Slices, run_in_slices
from raftlog.security.permissions import AclOperation, AclResourceType
from raftlog.types import Buffer, Isolation, Offset, TopicPartition
from raftlog.values.console import ShownRecord

FETCH_BYTES: Final = 1024 * 1024
SHOWN_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of shown records after which `RecordScan.show` returns; it may exceed them by its last record."""
_LARGE_BYTES: Final = 16 * 1024
_RECORDS_PER_YIELD: Final = 32


class RecordScan:
    """Search for records of a partition that pass a filter, from an offset on.

    `next_offset`: every earlier record was shown, or did not pass the filter."""

    def __init__(
        self,
        broker: Broker,
        caller: Caller,
        place: TopicPartition,
        offset: int,
        filter_: RecordFilter,
        bytes_max: int,
        isolation: Isolation,
        memory: AnswerMemory,
    ) -> None:
        """Prepare a scan of the partition `place` from `offset` on.

        `bytes_max` limits the shown bytes of a key, value or header. `memory` is charged for fetched batches and shown
        records."""
        self._broker, self._caller, self._place = broker, caller, place
        self._filter, self._bytes_max, self._isolation = filter_, bytes_max, isolation
        self._memory = memory
        self._batches: list[Buffer] = []
        self.next_offset = Offset(offset)
        self.log_start_offset = self.high_watermark = Offset(0)
        """Bounds of the log at the last fetch; the high watermark is the end offset that the isolation level allows."""
        self._held = self._shown_bytes = 0
        """Bytes charged to `memory` for the fetched batches, and for the shown records."""
        self.scanned = 0
        """Records that were compared with the filter."""
        self.fetched_bytes = 0
        self._slices = Slices()

    @property
    def is_at_end(self) -> bool:
        """Whether there were no further records at the last fetch."""
        return not self._batches and self.next_offset >= self.high_watermark

    @property
    def has_batches(self) -> bool:
        """Whether fetched batches are left to be scanned."""
        return bool(self._batches)

    async def fetch(self, wait_ms: int, min_bytes: int) -> int:
        """Fetch batches, and return their size in bytes; 0 at the end of the log, or if no records arrive in time.

        Raises `TopicNotAuthorized` if the permission has ended, `OffsetOutOfRange`, `MemoryBudgetExceeded` and the
        other errors of a fetch."""
        self._memory.release_part(self._held)
        self._held = 0
        reading = (AclOperation.READ, AclResourceType.TOPIC, (self._place.topic,))
        async with self._broker.security.authorizer.while_allowed(self._caller, *reading):
            fetched: Fetched = await self._broker.fetch(
                *self._place,
                self.next_offset,
                max_bytes=self._memory.room(FETCH_BYTES),
                min_bytes=min_bytes,
                deadline=deadline_in(wait_ms),
                isolation=self._isolation,
            )
        size = sum(map(len, fetched.batches))
        self._memory.add(size)
        self._held = size
        self._batches = list(fetched.batches)
        self.log_start_offset, self.high_watermark = fetched.log_start_offset, fetched.high_watermark
        self.fetched_bytes += size
        return size

    async def show(self, limit: int) -> list[ShownRecord]:
        """Return the next records of the fetched batches that pass the filter, at most `limit`.

        Raises `UndecodableBatch` if a batch cannot be decoded and no record before it passes the filter."""
        shown: list[ShownRecord] = []
        size = 0
        while self._batches and len(shown) < limit and size < SHOWN_BYTES_MAX:
            await self._slices.pause_if_over()
            batch = self._batches[0]
            header = read_header(batch)
            is_whole = True
            if not header.is_control:
                try:
                    async with self._open(batch) as opened:
                        part = await run_in_slices(self._show_batch(opened, limit - len(shown), SHOWN_BYTES_MAX - size))
                except UndecodableBatch as error:
                    self._batches.clear()
                    if not shown:
                        raise error.located_at(self._place) from None
                    break
                rows, is_whole = part
                shown += rows
                size += sum(map(shown_size, rows))
            if is_whole:
                self.next_offset = max(self.next_offset, Offset(header.next_offset))
                self._batches.pop(0)
        self._memory.add(size)
        self._shown_bytes += size
        return shown

    @asynccontextmanager
    async def _open(self, batch: Buffer) -> AsyncIterator[Buffer]:
        """Decompress a batch; its memory is held until the block ends. Raises `UndecodableBatch`."""
        opened = await self._broker.opener.open(batch)
        held = len(opened) if opened is not batch else 0
        self._memory.add(held)
        try:
            yield opened
        finally:
            self._memory.release_part(held)

    def release_shown(self) -> None:
        """Release the memory of all shown records, after they were sent."""
        self._memory.release_part(self._shown_bytes)
        self._shown_bytes = 0

    def _show_batch(
        self, batch: Buffer, limit: int, room: int
    ) -> Generator[None, None, tuple[list[ShownRecord], bool]]:
        """Return records of a batch that pass the filter, and whether the whole batch was scanned.

        At most `limit` records, until their size exceeds `room` bytes. Yields so that other tasks run."""
        rows: list[ShownRecord] = []
        records = read_records(batch)
        for number, record in enumerate(records):
            if record.offset < self.next_offset:
                if number % _RECORDS_PER_YIELD == 0:
                    yield
                continue
            if number % _RECORDS_PER_YIELD == 0 or _is_large(record):
                yield
            self.scanned += 1
            self.next_offset = Offset(record.offset + 1)
            if self._filter.matches(record):
                rows.append(show_record(record, self._place.partition, self._bytes_max))
                room -= shown_size(rows[-1])
                if len(rows) >= limit or room <= 0:
                    return rows, False
        return rows, True

    async def count_records(self) -> int:
        """Return the number of records in the fetched batches, from `next_offset` on."""
        count = 0
        for batch in self._batches:
            header = read_header(batch)
            if header.base_offset >= self.next_offset:
                count += 0 if header.is_control else header.record_count
            elif not header.is_control:
                async with self._open(batch) as opened:
                    count += await run_in_slices(_count_from(opened, self.next_offset))
            self.next_offset = max(self.next_offset, Offset(header.next_offset))
        self._batches.clear()
        return count


def _count_from(batch: Buffer, first: Offset) -> Generator[None, None, int]:
    """Return the number of records of a batch from offset `first` on. Yields so that other tasks run."""
    count = 0
    for number, record in enumerate(read_records(batch)):
        if number % _RECORDS_PER_YIELD == 0:
            yield
        count += record.offset >= first
    return count


def _is_large(record: Record) -> bool:
    """Return whether the scan must yield to the event loop after this record, because it is large."""
    parts = (record.key, record.value)
    return any(len(part or b"") > _LARGE_BYTES for part in parts)
