"""Batches as a backup holds and a restoration appends them. Pure; work is done per batch, without parsing records.

A restored batch keeps offsets, times, codec and records; it loses the producer, whose id belongs to another cluster,
and the mark of a transaction, which has ended. Offsets without records become batches without records."""

from collections.abc import Iterator

from crc32c import crc32c

from raftlog.backup.errors import BackupDamaged
from raftlog.records import BatchHeader, build_empty_batch, crc_matches, split_batches
from raftlog.records.header import CRC_START, HEADER_SIZE, TRANSACTIONAL_BIT, batch_crc, header_bytes
from raftlog.types import Buffer


def read_saved_batches(path: str, data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches of a file. Raises `BackupDamaged` for a batch whose CRC does not match, and `InvalidBatch`."""
    for header, batch in split_batches(data):
        if not crc_matches(batch, header):
            raise BackupDamaged(f"{path}: the batch at offset {header.base_offset} is damaged: its CRC does not match")
        yield header, batch


def to_restored(header: BatchHeader, batch: Buffer) -> tuple[BatchHeader, Buffer]:
    """Return a batch without producer id, epoch, sequence and transaction; the given one if it has none of them."""
    attributes = header.attributes & ~TRANSACTIONAL_BIT
    fresh = header._replace(attributes=attributes, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    if fresh == header:
        return header, batch
    body = bytearray(header_bytes(fresh))
    body += memoryview(batch)[HEADER_SIZE:]
    fresh = fresh._replace(crc=batch_crc(body))
    body[:HEADER_SIZE] = header_bytes(fresh)
    return fresh, body


def build_fillers(first: int, end: int) -> Iterator[bytearray]:
    """Yield batches without records for the offsets `first ≤ offset < end`."""
    while first < end:
        batch = build_empty_batch(first, end, 0)
        yield batch
        first = next(split_batches(batch))[0].next_offset


class ContentDigest:
    """CRC over offset and content of the batches with records, in order; the same for a log and its restored copy."""

    def __init__(self) -> None:
        self.crc = self.batches = self.records = 0

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Add a batch, in the form of `to_restored`, to the digest."""
        if header.record_count:
            self.crc = crc32c(memoryview(batch)[CRC_START:], crc32c(header.base_offset.to_bytes(8), self.crc))
            self.batches += 1
            self.records += header.record_count
