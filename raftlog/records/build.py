"""Building batches. The encoding itself is aiokafka's compiled codec."""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from raftlog.errors import InvalidArgument
from raftlog.records.compression import Compression
from raftlog.records.header import MAGIC

_NO_LIMIT = (1 << 31) - 1
_NO_PRODUCER = -1
_TIMESTAMP_MAX = (1 << 63) - 1


class NewRecord(NamedTuple):
    """A record before it has an offset. `timestamp` is in milliseconds; `None` takes the time of building."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class BatchBuilder:
    """Collects records into one batch.

    `size_bytes` is the size of the batch as it stands, before compression. A builder is used once.
    """

    def __init__(
        self,
        compression: Compression = Compression.NONE,
        *,
        producer_id: int = _NO_PRODUCER,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> None:
        self._builder = DefaultRecordBatchBuilder(
            MAGIC, compression, False, producer_id, producer_epoch, base_sequence, _NO_LIMIT
        )
        self.count = 0

    @property
    def size_bytes(self) -> int:
        return int(self._builder.size())

    def append(self, record: NewRecord, now_ms: int) -> None:
        """Add one record; raises `InvalidArgument` for fields that a record cannot hold."""
        value, key, timestamp, headers = record
        if timestamp is None:
            timestamp = now_ms
        try:
            self._builder.append(self.count, timestamp, key, value, headers if type(headers) is list else list(headers))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InvalidArgument(
                f"record {self.count} cannot be stored: {error}; keys and values are bytes or None, "
                "timestamps milliseconds, headers pairs of str and bytes"
            ) from None
        self.count += 1

    def build(self) -> bytearray:
        """The batch with base offset 0 and leader epoch 0, to be stamped by whoever appends it."""
        assert self.count > 0, "a batch holds at least one record"
        return _built(self._builder)


def build_batch(
    records: Iterable[NewRecord | bytes], compression: Compression = Compression.NONE, now_ms: int | None = None
) -> bytearray:
    """Build one batch of the records, values alone or whole `NewRecord`s; raises `InvalidArgument` when empty."""
    if now_ms is None:
        now_ms = time.time_ns() // 1_000_000
    builder = DefaultRecordBatchBuilder(MAGIC, compression, False, _NO_PRODUCER, -1, -1, _NO_LIMIT)
    append = builder.append
    count = 0
    no_headers: list[tuple[str, bytes | None]] = []
    try:
        for record in records:
            if isinstance(record, bytes):
                append(count, now_ms, None, record, no_headers)
            else:
                value, key, timestamp, headers = record
                timestamp = now_ms if timestamp is None else timestamp
                append(count, timestamp, key, value, list(headers) if headers else no_headers)
            count += 1
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InvalidArgument(
            f"record {count} cannot be stored: {error}; a record is bytes or a NewRecord, whose key and value are "
            "bytes or None, timestamp milliseconds, headers pairs of str and bytes"
        ) from None
    if not count:
        raise InvalidArgument("a batch holds at least one record, and none was given")
    return _built(builder)


def _built(builder: DefaultRecordBatchBuilder) -> bytearray:
    batch = builder.build()
    assert type(batch) is bytearray, "the codec gives a buffer of its own, which is stamped in place"
    return batch
