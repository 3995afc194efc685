"""Decoder of stored batches into columns, for the readers of brokers and of segment files.

Records never become Python rows: the compiled codec decodes the records of a batch, one comprehension collects each
column, and Arrow copies the columns when there are enough rows. Pure; the caller has checked the CRCs.

Invariants: offsets rise from row to row; no record batch has more than `ROWS_MAX` rows, or more than `BYTES_MAX` bytes
of keys and values unless it is a single row. At most `OPENED_MAX` decoded records exist at a time."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.errors import InvalidBatch, UndecodableBatch
from raftlog.pipeline.rows import ARROW_SCHEMA, HEADERS_TYPE, TIMESTAMP_TYPE
from raftlog.records import BatchHeader, Record, read_records
from raftlog.records.header import TIMESTAMP_TYPE_BIT
from raftlog.types import Buffer, TopicPartition

ROWS_MAX: Final = 20_000
BYTES_MAX: Final = 8 * 1024 * 1024
TIMESTAMP_MS_MAX: Final = ((1 << 63) - 1) // 1000
"""Latest timestamp in milliseconds that fits into Spark's microseconds."""

OPENED_MAX: Final = 256
"""Maximum number of decoded records at a time.

A record is two objects for Python's garbage collector, which scans all young objects after every 700 new ones. With
whole batches the collector would take half of the time."""

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

Header = tuple[str, bytes | None]
_NO_HEADERS: Final[list[Header]] = []


def decode_rows(
    topic: str,
    partition: int,
    batches: Iterable[tuple[BatchHeader, Buffer]],
    start: int,
    end: int,
    *,
    skips_undecodable: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the client records with `start ≤ offset < end` of consecutive stored batches.

    The record batches have the schema `ARROW_SCHEMA`. Control batches and gaps of compaction yield nothing. Raises
    `UndecodableBatch` after the rows before it, or with `skips_undecodable` warns and continues with the next batch.
    Raises `InvalidBatch` for any other malformed batch. If the iterator `batches` raises `InvalidBatch`, the error is
    raised again with the partition's name in its text."""
    try:
        yield from _decode_batches(TopicPartition(topic, partition), batches, start, end, skips_undecodable)
    except UndecodableBatch:
        raise
    except InvalidBatch as error:
        raise InvalidBatch(f"{topic}/{partition}: {error}") from error


def _decode_batches(
    place: TopicPartition,
    batches: Iterable[tuple[BatchHeader, Buffer]],
    start: int,
    end: int,
    skips_undecodable: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the batches in record batches of bounded size; see `decode_rows`."""
    gathered = _Columns()
    for header, batch in batches:
        base_offset, next_offset = header.base_offset, header.next_offset
        if header.is_control or next_offset <= start or base_offset >= end:
            continue
        is_inside = start <= base_offset and next_offset <= end
        kind = LOG_APPEND_TIME if header.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME
        try:
            for piece in _decode_pieces(header, batch):
                if not gathered.has_room(piece):
                    yield gathered.to_record_batch(place)
                    gathered = _Columns()
                for few in piece.records:
                    gathered.add(few if is_inside else [each for each in few if start <= each.offset < end], kind)
                gathered.size += piece.size
        except UndecodableBatch as error:
            if error.offset >= end:
                continue
            located = error.located_at(place)
            if not skips_undecodable:
                if gathered.rows:
                    yield gathered.to_record_batch(place)
                raise located from None
            warnings.warn(f"records were left out: {located}", stacklevel=2)
    if gathered.rows:
        yield gathered.to_record_batch(place)


class _ArrowPiece(NamedTuple):
    """Records of one batch that fit into one record batch, in sequences of at most `OPENED_MAX`.

    It has at most `rows` records, whose keys and values have at most `size` bytes."""

    records: Iterable[Sequence[Record]]
    rows: int
    size: int


def _decode_pieces(header: BatchHeader, batch: Buffer) -> Iterable[_ArrowPiece]:
    """Return the records of a batch in pieces; an uncompressed batch within the limits is one piece."""
    records, rows, size = read_records(batch), header.record_count, header.size
    if header.compression or size > BYTES_MAX or rows > ROWS_MAX:
        return (piece for few in _in_short_sequences(records) for piece in _split_by_size(few))
    return (_ArrowPiece(_in_short_sequences(records), rows, size),)


def _in_short_sequences(records: Iterator[Record]) -> Iterator[Sequence[Record]]:
    """Yield all records in short sequences, including those before an undecodable record."""
    few: list[Record] = []
    try:
        few.extend(islice(records, min(OPENED_MAX, ROWS_MAX)))
        while few:
            yield few
            few = []
            few.extend(islice(records, min(OPENED_MAX, ROWS_MAX)))
    except UndecodableBatch:
        if few:
            yield few
        raise


def _split_by_size(records: Sequence[Record]) -> Iterator[_ArrowPiece]:
    """Yield pieces, each with as many records as fit into one record batch."""
    ends = list(accumulate(map(_size, records)))
    first, before = 0, 0
    for number, end in enumerate(ends):
        if end - before > BYTES_MAX and number > first:
            yield _ArrowPiece((records[first:number],), number - first, ends[number - 1] - before)
            first, before = number, ends[number - 1]
    yield _ArrowPiece((records[first:],), len(records) - first, ends[-1] - before)


def _size(record: Record) -> int:
    """Return the total bytes of a record's key, value and headers."""
    size = len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(len(key) + len(value or b"") for key, value in record.headers)
    return size


class _Columns:
    """Columns of the Arrow record batch that is being built.

    Up to `OPENED_MAX` records of small batches are collected before they are appended to the columns."""

    def __init__(self) -> None:
        self.rows = 0
        self.size = 0
        """Bytes of keys and values, or more."""
        self._open: list[Record] = []
        self._kind = CREATE_TIME
        """Timestamp type of the collected records."""
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._kinds: list[tuple[int, int]] = []
        """Timestamp types of the rows as runs of equal types: type and number of rows."""
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[list[Header]] = []

    def has_room(self, piece: _ArrowPiece) -> bool:
        """Return whether the record batch has room for the piece; an empty one accepts every piece."""
        return not self.rows or (self.rows + piece.rows <= ROWS_MAX and self.size + piece.size <= BYTES_MAX)

    def add(self, records: Sequence[Record], kind: int) -> None:
        """Add records of one batch; `kind` is the type of their timestamps."""
        if kind != self._kind or len(self._open) + len(records) > OPENED_MAX:
            self._append_open()
            self._kind = kind
        self._open += records
        self.rows += len(records)

    def _append_open(self) -> None:
        """Append the collected records to the columns, one column after another."""
        if not self._open:
            return
        records, self._open = self._open, []
        self._offsets += [record.offset for record in records]
        self._timestamps += [record.timestamp for record in records]
        self._kinds.append((self._kind, len(records)))
        self._keys += [record.key for record in records]
        self._values += [record.value for record in records]
        headers = [record.headers for record in records]
        self._headers += headers if any(headers) else [_NO_HEADERS] * len(headers)

    def to_record_batch(self, place: TopicPartition) -> pa.RecordBatch:
        """Return the columns as one record batch."""
        self._append_open()
        count = len(self._offsets)
        columns = [
            pa.repeat(pa.scalar(place.topic, pa.string()), count),
            pa.repeat(pa.scalar(place.partition, pa.int32()), count),
            pa.array(self._offsets, pa.int64()),
            _timestamps(self._timestamps),
            _encode_runs(self._kinds),
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            _headers(self._headers),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def _timestamps(milliseconds: Sequence[int]) -> pa.Array:
    """Convert milliseconds, at least one value, to a column of microseconds.

    Null where a record has no time (-1) or one above `TIMESTAMP_MS_MAX`."""
    given = pa.array(milliseconds, pa.int64())
    bounds = pc.min_max(given).as_py()
    if bounds["min"] < 0 or bounds["max"] > TIMESTAMP_MS_MAX:
        fits = pc.and_(pc.greater_equal(given, 0), pc.less_equal(given, TIMESTAMP_MS_MAX))
        given = pc.if_else(fits, given, pa.scalar(None, pa.int64()))
    return given.cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP_TYPE)


def _encode_runs(runs: Sequence[tuple[int, int]]) -> pa.Array:
    """Return the column of timestamp types from pairs of type and count."""
    if len({kind for kind, _ in runs}) == 1:
        return pa.repeat(pa.scalar(runs[0][0], pa.int32()), sum(count for _, count in runs))
    return pa.concat_arrays([pa.repeat(pa.scalar(kind, pa.int32()), count) for kind, count in runs])


def _headers(lists: Sequence[list[Header]]) -> pa.Array:
    """Return the column of headers, null for a record without headers."""
    if not any(lists):
        return pa.nulls(len(lists), HEADERS_TYPE)
    flat = [header for headers in lists for header in headers]
    pairs = pa.StructArray.from_arrays(
        [pa.array([key for key, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
        fields=list(HEADERS_TYPE.value_type),
    )
    ends = list(accumulate((len(headers) for headers in lists), initial=0))
    is_null = pa.array([not headers for headers in lists], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs, type=HEADERS_TYPE, mask=is_null)
