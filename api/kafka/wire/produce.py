"""Codec of Produce 3 to 9: record batches of requests are views of the frame and are not copied.

Version 9 has compact lengths and tagged fields. Record batches are not decoded here. Called by `dispatcher`; no I/O."""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
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
_NULL: Final = -1
_HEAD_OF_ONE: Final = Struct(">hhiih")
"""Length of the transactional id, acks, timeout, number of topics, length of the first one's name."""
_HEAD_OF_RECORDS: Final = Struct(">iii")
"""Number of partitions, the first one, length of its records."""
_NO_MESSAGES: Final = Struct(">ih").pack(0, _NULL)
_NO_MESSAGES_FLEXIBLE: Final = b"\x01\x00\x00"
"""No record errors, no error message, and in flexible versions no tagged fields."""


ProducedRecords = tuple[int, memoryview | None]
"""Partition and its records; None for a null field."""


class ProduceRequest(NamedTuple):
    """Decoded Produce request: topics with the records of their partitions, in the client's order."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[str, Sequence[ProducedRecords]]]


class ProducedPartition(NamedTuple):
    """Answer to Produce for one partition; offsets are -1 if it has an error."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


ProduceAnswer = Sequence[tuple[str, Sequence[ProducedPartition]]]


def decode(body: memoryview, version: int) -> ProduceRequest:
    """Decode the body of a request. Raises `MalformedRequest`."""
    is_flexible = version >= FLEXIBLE_FROM
    if not is_flexible:
        alone = _decode_single(body)
        if alone is not None:
            return alone
    reader = RequestReader(body)
    transactional_id = reader.string(is_compact=is_flexible, is_nullable=True)
    acks, timeout_ms = reader.numbers(_ACKS_AND_TIMEOUT)
    topics = []
    for _ in range(reader.count(is_compact=is_flexible) or 0):
        name = reader.string(is_compact=is_flexible) or ""
        partitions = []
        for _ in range(reader.count(is_compact=is_flexible) or 0):
            partition = reader.int32()
            size = reader.length(is_compact=is_flexible)
            partitions.append((partition, None if size == -1 else reader.view(size)))
            if is_flexible:
                reader.skip_tagged_fields()
        topics.append((name, partitions))
        if is_flexible:
            reader.skip_tagged_fields()
    if is_flexible:
        reader.skip_tagged_fields()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_single(body: memoryview) -> ProduceRequest | None:
    """Decode a request for one partition, before version 9 and without transactional id; None for other requests.

    This fast path needs a few calls; `RequestReader` needs about thirty."""
    try:
        null, acks, timeout_ms, topics, size = _HEAD_OF_ONE.unpack_from(body)
        at = _HEAD_OF_ONE.size + size
        partitions, partition, length = _HEAD_OF_RECORDS.unpack_from(body, at)
        if (null, topics, partitions) != (_NULL, 1, 1) or at + _HEAD_OF_RECORDS.size + length != len(body) or size < 0:
            return None
        name = str(body[_HEAD_OF_ONE.size : at], "utf-8")
    except (struct_error, UnicodeDecodeError):
        return None
    return ProduceRequest(None, acks, timeout_ms, ((name, ((partition, body[at + _HEAD_OF_RECORDS.size :]),)),))


def encode(answer: ProduceAnswer, version: int) -> Sequence[Buffer]:
    """Encode the body of an answer."""
    writer = FlexibleWriter() if version >= FLEXIBLE_FROM else PlainWriter()
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
                if error_message is None:
                    out += _NO_MESSAGES_FLEXIBLE if version >= FLEXIBLE_FROM else _NO_MESSAGES
                else:
                    writer.count(0)
                    writer.string(error_message)
                    writer.tags()
        writer.tags()
    out += _NO_THROTTLE
    writer.tags()
    return (out,)
