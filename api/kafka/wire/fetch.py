"""Codec of Fetch 4 to 12: rows of a topic are unpacked in one step, and stored batches are not copied.

    fields of a request's row, by version
      v4: partition, offset, max bytes    v5: + log start    v9: + leader epoch    v12: + last fetched epoch, tags

Called by `dispatcher`; no I/O."""

from collections.abc import Sequence
from itertools import repeat
from struct import Struct
from typing import Final, NamedTuple

from raftlog.api.kafka.wire.reader import RequestReader
from raftlog.api.kafka.wire.writer import FlexibleWriter, PlainWriter
from raftlog.types import Buffer

FLEXIBLE_FROM: Final = 12
_SESSIONS_FROM: Final = 7
_LOG_START_FROM: Final = 5
_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_HEAD: Final = Struct(">iiiib")
_SESSION: Final = Struct(">ii")
_NO_EPOCH: Final = -1
_ROW_4, _ROW_5, _ROW_9, _ROW_12 = Struct(">iqi"), Struct(">iqqi"), Struct(">iiqqi"), Struct(">iiqiqi")
_ROW_12_TAGGED: Final = Struct(">iiqiqiB")
_PARTITION: Final = Struct(">i")
_NUMBERS, _NUMBERS_5 = Struct(">ihqq"), Struct(">ihqqq")
_PREFERRED: Final = Struct(">i").pack(-1)
_ABORTED: Final = Struct(">qq")
_ANSWER_HEAD: Final = Struct(">ihi")
_NO_THROTTLE: Final = bytes(4)

PartitionRow = tuple[int, int, int, int]
"""Row of a request: partition, leader epoch, offset, maximum bytes."""


class PartitionsRequest(NamedTuple):
    """Decoded Fetch request; `topics` are names, each with the rows of its partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Sequence[tuple[str, Sequence[PartitionRow]]]
    forgotten: Sequence[tuple[str, Sequence[int]]]
    """Partitions that the session no longer has."""


class AnsweredPartition(NamedTuple):
    """Answer to Fetch for one partition.

    `aborted` are ids of producers with first offsets of aborted transactions; they are written with records only."""

    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    batches: Sequence[Buffer]
    last_stable_offset: int = -1
    aborted: Sequence[tuple[int, int]] = ()


class FetchAnswer(NamedTuple):
    """Answer to Fetch; `session_id` is 0 without a session.

    `has_aborted_list`: whether the field of aborted transactions is a list, and not null."""

    error_code: int
    has_aborted_list: bool
    topics: Sequence[tuple[str, Sequence[AnsweredPartition]]]
    session_id: int = 0


def decode(body: memoryview, version: int) -> PartitionsRequest:
    """Decode the body of a request. Raises `MalformedRequest`."""
    reader, is_compact = RequestReader(body), version >= FLEXIBLE_FROM
    _, max_wait_ms, min_bytes, max_bytes, isolation_level = reader.numbers(_HEAD)
    session_id, session_epoch = reader.numbers(_SESSION) if version >= _SESSIONS_FROM else (0, _NO_EPOCH)
    topics = []
    for _ in range(reader.count(is_compact=is_compact) or 0):
        name = reader.string(is_compact=is_compact) or ""
        topics.append((name, _read_rows(reader, version)))
        if is_compact:
            reader.skip_tagged_fields()
    forgotten = _read_forgotten(reader, is_compact) if version >= _SESSIONS_FROM else ()
    if version >= _RACK_FROM:
        reader.string(is_compact=is_compact)
    if is_compact:
        reader.skip_tagged_fields()
    return PartitionsRequest(
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten
    )


def _read_rows(reader: RequestReader, version: int) -> Sequence[PartitionRow]:
    """Read the rows of one topic's partitions; the layout depends on the version."""
    if version >= FLEXIBLE_FROM:
        return _read_flexible_rows(reader)
    layout = _ROW_9 if version >= _EPOCH_FROM else _ROW_5 if version >= _LOG_START_FROM else _ROW_4
    count = reader.count(is_compact=False, element_bytes_min=layout.size) or 0
    rows = layout.iter_unpack(reader.view(count * layout.size))
    if version >= _EPOCH_FROM:
        return [(partition, epoch, offset, size) for partition, epoch, offset, _, size in rows]
    if version >= _LOG_START_FROM:
        return [(partition, _NO_EPOCH, offset, size) for partition, offset, _, size in rows]
    return [(partition, _NO_EPOCH, offset, size) for partition, offset, size in rows]


def _read_flexible_rows(reader: RequestReader) -> Sequence[PartitionRow]:
    """Read rows with tagged fields; faster if none has any, because all rows then have the same size."""
    count = reader.count(is_compact=True, element_bytes_min=_ROW_12_TAGGED.size) or 0
    begin = reader.position
    rows = list(_ROW_12_TAGGED.iter_unpack(reader.view(count * _ROW_12_TAGGED.size)))
    if not any(row[-1] for row in rows):
        return [(partition, epoch, offset, size) for partition, epoch, offset, _, _, size, _ in rows]
    reader.position = begin
    found = []
    for _ in repeat(None, count):
        partition, epoch, offset, _, _, size = reader.numbers(_ROW_12)
        reader.skip_tagged_fields()
        found.append((partition, epoch, offset, size))
    return found


def _read_forgotten(reader: RequestReader, is_compact: bool) -> Sequence[tuple[str, Sequence[int]]]:
    """Return the partitions that the client removes from its session, by topic."""
    found = []
    for _ in range(reader.count(is_compact=is_compact) or 0):
        name = reader.string(is_compact=is_compact) or ""
        count = reader.count(is_compact=is_compact, element_bytes_min=_PARTITION.size) or 0
        found.append((name, [number for (number,) in _PARTITION.iter_unpack(reader.view(count * _PARTITION.size))]))
        if is_compact:
            reader.skip_tagged_fields()
    return found


def encode(answer: FetchAnswer, version: int) -> Sequence[Buffer]:
    """Encode the body of an answer: encoded fields, and between them the stored batches without a copy."""
    is_flexible = version >= FLEXIBLE_FROM
    writer = FlexibleWriter() if is_flexible else PlainWriter()
    pieces: list[Buffer] = []
    out = writer.out
    out += _ANSWER_HEAD.pack(0, answer.error_code, answer.session_id) if version >= _SESSIONS_FROM else _NO_THROTTLE
    writer.count(len(answer.topics))
    middle, last = _constant_fields(answer.has_aborted_list, version)
    has_log_start = version >= _LOG_START_FROM
    pack, pack_5 = _NUMBERS.pack, _NUMBERS_5.pack
    for name, partitions in answer.topics:
        writer.string(name)
        writer.count(len(partitions))
        for partition, error_code, watermark, log_start, batches, stable, aborted in partitions:
            if has_log_start:
                out += pack_5(partition, error_code, watermark, stable, log_start)
            else:
                out += pack(partition, error_code, watermark, stable)
            if not batches:
                out += last
                continue
            out += _aborted_fields(aborted, version) if aborted else middle
            writer.count(sum(map(len, batches)))
            pieces.append(out)
            pieces += batches
            out = writer.out = bytearray()
            writer.tags()
        writer.tags()
    writer.tags()
    pieces.append(out)
    return pieces


def _aborted_fields(aborted: Sequence[tuple[int, int]], version: int) -> bytes:
    """Return the encoded fields between a partition's offsets and its records, with its aborted transactions."""
    writer = FlexibleWriter() if version >= FLEXIBLE_FROM else PlainWriter()
    writer.count(len(aborted))
    for producer_id, first_offset in aborted:
        writer.out += _ABORTED.pack(producer_id, first_offset)
        writer.tags()
    if version >= _RACK_FROM:
        writer.out += _PREFERRED
    return bytes(writer.out)


def _constant_fields(has_aborted_list: bool, version: int) -> tuple[bytes, bytes]:
    """Return two encoded parts of an answer that are the same for all partitions without aborted transactions.

    They are the fields before a partition's records, and those fields with the end of a partition without records."""
    writer = FlexibleWriter() if version >= FLEXIBLE_FROM else PlainWriter()
    if has_aborted_list:
        writer.count(0)
    else:
        writer.null_array()
    if version >= _RACK_FROM:
        writer.out += _PREFERRED
    middle = bytes(writer.out)
    writer.count(0)
    writer.tags()
    return middle, bytes(writer.out)
