"""Builders of batches, with the compiled codec of aiokafka."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from raftlog.errors import InvalidArgument
from raftlog.records.compression import Compression
from raftlog.records.header import MAGIC

_NO_LIMIT = (1 << 31) - 1
_NO_PRODUCER = -1


class NewRecord(NamedTuple):
    """Record before it has an offset. `timestamp` is in milliseconds; None: the time at which the batch is built."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


_FIELD_COUNT: Final = len(NewRecord._fields)


class BatchBuilder:
    """Builder of one batch; used once.

    `size_bytes` is the present size of the batch before compression."""

    def __init__(
        self,
        compression: Compression = Compression.NONE,
        *,
        producer_id: int = _NO_PRODUCER,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> None:
        """Begin an empty batch. The producer's fields are those of the batch header (-1: no producer)."""
        self._builder = _new_builder(compression, producer_id, producer_epoch, base_sequence, is_transactional)
        self.count = 0

    @property
    def size_bytes(self) -> int:
        return int(self._builder.size())

    def append(self, record: NewRecord | bytes, now_ms: int) -> None:
        """Add one record; raises `InvalidArgument` for values that a record cannot have."""
        number = self.count
        if isinstance(record, tuple) and len(record) == _FIELD_COUNT:
            value, key, timestamp, headers = record
        elif isinstance(record, bytes):
            value, key, timestamp, headers = NewRecord(record)
        else:
            hint = "encode it (text.encode())" if isinstance(record, str) else "give bytes or NewRecord(value, key, …)"
            raise InvalidArgument(f"record {number} is {type(record).__name__} {record!r:.60}; {hint}")
        try:
            timestamp = now_ms if timestamp is None else timestamp
            if timestamp < 0:
                raise ValueError("its timestamp is negative")
            self._builder.append(number, timestamp, key, value, headers if type(headers) is list else list(headers))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InvalidArgument(
                f"record {number} cannot be stored: {error}; a record is bytes or a NewRecord, whose key and value are "
                "bytes or None, timestamp milliseconds, headers pairs of str and bytes"
            ) from None
        self.count = number + 1

    def build(self) -> bytearray:
        """Return the batch with base offset 0 and leader epoch 0; the leader stamps both when it appends the batch."""
        assert self.count > 0, "a batch holds at least one record"
        return _finish_build(self._builder)


def build_batch(
    records: Iterable[NewRecord | bytes], compression: Compression = Compression.NONE, now_ms: int | None = None
) -> bytearray:
    """Build one batch of records, each a value or a `NewRecord`. Raises `InvalidArgument`, also without records."""
    given = records if isinstance(records, list) else list(records)
    if not given:
        raise InvalidArgument("a batch holds at least one record, and none was given")
    if now_ms is None:
        now_ms = time.time_ns() // 1_000_000
    builder = _new_builder(compression)
    try:
        # Values alone are the common case. `map` calls the codec without a turn of the interpreter for each record.
        appended = map(builder.append, range(len(given)), repeat(now_ms), repeat(None), given, repeat([]))
        deque(appended, maxlen=0)
    except (TypeError, OverflowError):
        one_by_one = BatchBuilder(compression)
        for record in given:
            one_by_one.append(record, now_ms)
        return one_by_one.build()
    return _finish_build(builder)


def build_columns(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[list[tuple[str, bytes | None]]],
    compression: Compression = Compression.NONE,
    *,
    producer_id: int = _NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """Build one batch from columns of equal length, the cheapest form of many small records.

    Raises `InvalidArgument` for values that a record cannot have."""
    assert 0 < len(values) == len(keys) == len(timestamps) == len(headers), "columns of one length, with a record"
    builder = _new_builder(compression, producer_id, producer_epoch, base_sequence, is_transactional)
    try:
        deque(map(builder.append, range(len(values)), timestamps, keys, values, headers), maxlen=0)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InvalidArgument(f"a record cannot be stored: {error}") from None
    return _finish_build(builder)


def _new_builder(
    compression: Compression,
    producer_id: int = _NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> DefaultRecordBatchBuilder:
    """Return an empty builder of the codec, without a limit on size."""
    return DefaultRecordBatchBuilder(
        MAGIC, compression, is_transactional, producer_id, producer_epoch, base_sequence, _NO_LIMIT
    )


def _finish_build(builder: DefaultRecordBatchBuilder) -> bytearray:
    """Return the batch in a new buffer, which the caller may change."""
    batch = builder.build()
    assert type(batch) is bytearray, "the codec gives a buffer of its own, which is stamped in place"
    return batch
