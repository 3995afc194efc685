"""Opening what a fetch brought: batches that are checked, and their records."""

from collections.abc import Iterator

from raftlog.errors import InvalidBatch
from raftlog.records import BatchHeader, Record, crc_matches, read_records, split_batches
from raftlog.types import Buffer


def checked_batches(body: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a fetched body; raises `InvalidBatch` for one that was damaged since it was stored."""
    for header, batch in split_batches(body):
        if not crc_matches(batch, header):
            raise InvalidBatch(f"the batch at offset {header.base_offset} arrived damaged: its CRC does not match")
        yield header, batch


def records_from(header: BatchHeader, batch: memoryview, offset: int) -> list[Record]:
    """The records of one batch at or above `offset`, which may lie anywhere."""
    records = list(read_records(batch))
    if header.base_offset < offset:
        return [record for record in records if record.offset >= offset]
    return records
