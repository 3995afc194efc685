"""Removal of records from a batch, for compaction; the kept records are the same byte for byte.

Base offset, last offset delta, term, times, codec and the producer's fields stay, so every kept record has its offset
and timestamp, and the batch its place in the log. Only record count, length and CRC change, as in Kafka's cleaner."""

from collections.abc import Generator, Sequence
from itertools import islice
from typing import Final

from raftlog.errors import InvalidBatch
from raftlog.records.compression import compress_in_steps
from raftlog.records.header import HEADER_SIZE, LENGTH_END, BatchHeader, batch_crc, header_bytes
from raftlog.types import Buffer

_STEP_RECORDS: Final = 2_000


def retain_in_steps(header: BatchHeader, opened: Buffer, keeps: Sequence[bool]) -> Generator[None, None, bytes]:
    """Return the batch with the records whose flag in `keeps` is true; at least one flag is true.

    `header` is the header of the stored batch, `opened` the result of `open_in_steps`; the caller has checked the CRC
    and read the records. Yields None at points where other tasks may run. Raises `InvalidBatch`."""
    records = memoryview(opened)[HEADER_SIZE:]
    kept: list[memoryview] = []
    position, flags = 0, iter(keeps)
    while some := list(islice(flags, _STEP_RECORDS)):
        try:
            for is_kept in some:
                low = records[position]
                if low < 0x80:  # the length precedes it, as a zigzag varint
                    end = position + 1 + (low >> 1)
                elif (high := records[position + 1]) < 0x80:
                    end = position + 2 + (((low & 0x7F) | high << 7) >> 1)
                else:
                    end = _end_of_record(records, position)
                if is_kept:
                    kept.append(records[position:end])
                position = end
        except IndexError:
            raise InvalidBatch("a record extends beyond the end of its batch") from None
        yield
    assert kept, "a batch without records is a gap"
    body = b"".join(kept)
    if header.compression:
        body = yield from compress_in_steps(header.compression, body)
    length = HEADER_SIZE + len(body) - LENGTH_END
    fresh = header._replace(batch_length=length, record_count=len(kept))
    unsealed = header_bytes(fresh) + body
    return header_bytes(fresh._replace(crc=batch_crc(unsealed))) + body


def _end_of_record(records: memoryview, position: int) -> int:
    """Return the end position of a record whose length takes more than two bytes. Raises `IndexError`."""
    length = shift = 0
    while True:
        byte = records[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position + (length >> 1)
        shift += 7
