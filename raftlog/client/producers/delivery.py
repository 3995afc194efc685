"""Delivery of a record that a `Producer` accepted, and the batch that carries the record.

A batch collects records as columns until it is sent, and ends exactly once: done with its first offset, or with an
error whose outcome is failed or unknown. Its records share that result; each has a `Delivery` of two references."""

import asyncio
from collections.abc import Generator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from raftlog.client.answers import Produced
from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.records import NewRecord
from raftlog.types import Offset, TopicPartition

RecordHeaders: TypeAlias = list[tuple[str, bytes | None]]
RECORD_OVERHEAD_BYTES = 36
"""Bound on the size of a record without its key, value and headers: lengths and deltas as varints."""
_HEADER_OVERHEAD_BYTES = 10


class Delivered(NamedTuple):
    """Partition and offset of a stored record. `offset` is -1 if the broker did not return it (`acks="0"`)."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int


class Batch(Struct, eq=False):
    """Records of one partition.

    `number` counts the partition's sent batches; `sequence` is that of the first record, -1 before it is sent and
    without idempotence. `maybe_stored` is set for good when an answer was lost: from then on only the broker can report
    that the batch was not stored."""

    topic_partition: TopicPartition
    created_s: float
    done: "asyncio.Future[Produced]"
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    timestamps: list[int] = []
    headers: list[RecordHeaders] = []
    count: int = 0
    size_bytes: int = 0
    number: int = -1
    sequence: int = -1
    maybe_stored: bool = False
    is_result_read: bool = False
    last_error: RaftlogError | None = None

    def add(
        self, value: bytes | None, key: bytes | None, timestamp_ms: int, headers: RecordHeaders, size_bytes: int
    ) -> "Delivery":
        """Add a checked record."""
        self.values.append(value)
        self.keys.append(key)
        self.timestamps.append(timestamp_ms)
        self.headers.append(headers)
        self.size_bytes += size_bytes
        number = self.count
        self.count = number + 1
        return Delivery(self, number)

    def fill(self, records: Sequence[NewRecord | bytes], now_ms: int) -> None:
        """Fill the empty batch with records, at least one; `now_ms` is the timestamp of those without.

        Their content is checked when the batch is built. Raises `InvalidArgument` for an object of another type."""
        count = len(records)
        if type(records[0]) is bytes:  # no work per record for values alone
            self.values, self.keys = list(records), [None] * count  # type: ignore[arg-type]
            self.timestamps, self.headers = [now_ms] * count, [[]] * count
        else:
            for number, record in enumerate(records):
                if not isinstance(record, NewRecord):
                    given = f"{type(record).__name__} {record!r:.60}"
                    raise InvalidArgument(f"record {number} is {given}; give bytes or NewRecord(value, key, …)")
            values, keys, timestamps, headers = zip(*records, strict=True)
            self.values, self.keys = list(values), list(keys)
            self.timestamps = [now_ms if timestamp is None else timestamp for timestamp in timestamps]
            self.headers = [list(each) for each in headers]
        self.count = count
        self.size_bytes = sum(map(len, filter(None, self.values))) + sum(map(len, filter(None, self.keys)))
        self.size_bytes += RECORD_OVERHEAD_BYTES * count
        self.size_bytes += sum(size_of(None, None, each) for each in self.headers if each)

    def end(self, result: Produced | RaftlogError) -> None:
        """Set the result once, and release the records; their timestamps stay for the deliveries."""
        self.values, self.keys, self.headers = [], [], []
        if self.done.done():
            return
        if isinstance(result, RaftlogError):
            self.done.set_exception(result)
            self.done.exception()  # avoids the warning of asyncio about errors that are never retrieved
        else:
            self.done.set_result(result)


class Delivery:
    """Awaitable result of one record: its partition and offset, or an error whose `outcome` is failed or unknown."""

    __slots__ = ("_batch", "number_in_batch")

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch, self.number_in_batch = batch, number

    def __await__(self) -> Generator[object, None, Delivered]:
        self._batch.is_result_read = True
        if not self._batch.done.done():
            yield from asyncio.shield(self._batch.done)
        return self.result()

    @property
    def outcome(self) -> Literal["pending", "done", "failed", "unknown"]:
        """State of the record now."""
        done = self._batch.done
        if not done.done():
            return "pending"
        error = done.exception()
        return "done" if error is None else error.outcome if isinstance(error, RaftlogError) else "unknown"

    def result(self) -> Delivered:
        """Return partition and offset of the record, or raise its error.

        Raises asyncio's `InvalidStateError` while the record is pending."""
        batch = self._batch
        batch.is_result_read = True
        base = batch.done.result().base_offset
        offset = Offset(base + self.number_in_batch if base >= 0 else -1)
        return Delivered(*batch.topic_partition, offset, batch.timestamps[self.number_in_batch])


def size_of(value: bytes | None, key: bytes | None, headers: RecordHeaders) -> int:
    """Return an upper bound on the bytes of a record in an uncompressed batch."""
    size = RECORD_OVERHEAD_BYTES + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + (len(content) if content is not None else 0)
    return size
