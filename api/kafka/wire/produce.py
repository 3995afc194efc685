"""Codec of Produce 3 to 9: record batches of requests are views of the frame, nothing is copied.

Version 9 has compact lengths and tagged fields. The records of a partition are not looked at. Called by `dispatcher`;
no I/O."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from raftlog.api.kafka.wire.reader import RequestReader
from raftlog.api.kafka.wire.writer import FlexibleWriter, PlainWriter
from raftlog.types import Buffer

FLEXIBLE_FROM: Final = 9
_LOG_START_FROM: Final = 5
_MESSAGES_FROM: Final = 8
_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_NUMBERS: Final = Struct(">ihqq")
_LOG_START: Final = Struct(">q")
_NO_TIME: Final = -1
_NO_THROTTLE: Final = bytes(4)


class ProducedRecords(NamedTuple):
    """Records for one partition of a request; None for a null field."""

    partition: int
    records: memoryview | None


class ProduceRequest(NamedTuple):
    """Decoded request: topics with the records for their partitions, in the client's order."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[str, Sequence[ProducedRecords]]]


class ProducedPartition(NamedTuple):
    """Answer for one partition; offsets are -1 with an error."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


ProduceAnswer = Sequence[tuple[str, Sequence[ProducedPartition]]]


def decode(body: memoryview, version: int) -> ProduceRequest:
    """Decode the body of a request. Raises `MalformedRequest`."""
    reader, is_compact = RequestReader(body), version >= FLEXIBLE_FROM
    transactional_id = reader.string(is_compact=is_compact, is_nullable=True)
    acks, timeout_ms = reader.numbers(_ACKS_AND_TIMEOUT)
    topics = []
    for _ in range(_count(reader, is_compact)):
        name = _name(reader, is_compact)
        partitions = []
        for _ in range(_count(reader, is_compact)):
            partition = reader.int32()
            size = reader.length(is_compact=is_compact)
            partitions.append(ProducedRecords(partition, None if size == -1 else reader.view(size)))
            if is_compact:
                reader.skip_tagged_fields()
        topics.append((name, partitions))
        if is_compact:
            reader.skip_tagged_fields()
    if is_compact:
        reader.skip_tagged_fields()
    reader.finish()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _count(reader: RequestReader, is_compact: bool) -> int:
    return reader.count(is_compact=is_compact) or 0


def _name(reader: RequestReader, is_compact: bool) -> str:
    return reader.string(is_compact=is_compact) or ""


def encode(answer: ProduceAnswer, version: int) -> Sequence[Buffer]:
    """Encode the body of an answer."""
    is_flexible = version >= FLEXIBLE_FROM
    writer = FlexibleWriter() if is_flexible else PlainWriter()
    out = writer.out
    writer.count(len(answer))
    for name, partitions in answer:
        writer.string(name)
        writer.count(len(partitions))
        for partition, error_code, base_offset, log_start_offset, error_message in partitions:
            out += _NUMBERS.pack(partition, error_code, base_offset, _NO_TIME)
            if version >= _LOG_START_FROM:
                out += _LOG_START.pack(log_start_offset)
            if version >= _MESSAGES_FROM:
                writer.count(0)
                writer.nullable_string(error_message)
            writer.tags()
        writer.tags()
    out += _NO_THROTTLE
    writer.tags()
    return (out,)
