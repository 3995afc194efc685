"""Decoding of fetched batches: checks, and records."""

from collections.abc import Iterator

from raftlog.errors import InvalidBatch
from raftlog.records import BatchHeader, Record, crc_matches, read_records, split_batches
from raftlog.types import Buffer


def read_batches(body: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a fetched body; raise `InvalidBatch` for one that was damaged on the way."""
    for header, batch in split_batches(body):
        if not crc_matches(batch, header):
            raise InvalidBatch(f"the batch at offset {header.base_offset} arrived damaged: its CRC does not match")
        yield header, batch


def records_at_or_above(header: BatchHeader, batch: memoryview, offset: int) -> list[Record]:
    """Return the records of a batch at or above `offset`, which may lie outside of the batch."""
    records = list(read_records(batch))
    if header.base_offset < offset:
        return [record for record in records if record.offset >= offset]
    return records
