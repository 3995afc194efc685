"""Scan of a partition's log for the batches of one identity, from an offset to the high watermark.

Of batches of other producers only the header is read. Called by `sender`: if a lane requires a scan, and to list the
stored records that match no row."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from raftlog.client import BrokerClient
from raftlog.client.decode import read_batches
from raftlog.client.outage import Outage
from raftlog.errors import OffsetOutOfRange
from raftlog.pipeline.sink.identity import WriteIdentity
from raftlog.pipeline.sink.lane import FoundBatch
from raftlog.pipeline.sink.rows import digest
from raftlog.records import BatchHeader, read_records
from raftlog.types import Buffer, IsolationName, Offset, TopicPartition

FETCH_BYTES: Final = 4 << 20
_ALL: Final[IsolationName] = "read_uncommitted"
"""Isolation level of the scan: open transactions of other producers must not hide the sink's batches."""


class ScanResult(NamedTuple):
    """Batches of the identity that a scan found, and the end of the scan.

    `is_cut`: the log now begins after the start of the scan."""

    found: list[tuple[Offset, FoundBatch]]
    end: Offset
    is_cut: bool


async def scan(
    client: BrokerClient, place: TopicPartition, identity: WriteIdentity, start: Offset, outage: Outage
) -> ScanResult:
    """Scan from `start`, or from the log start if that is higher. Raises errors of fetches, and `InvalidBatch`."""
    generations, found, at = identity.generations(), list[tuple[Offset, FoundBatch]](), start
    async for header, batch in _batches(client, place, start, outage):
        at = Offset(header.next_offset)
        generation = generations.get(header.producer_id)
        if generation is not None and header.producer_epoch == identity.producer_epoch and header.base_offset >= start:
            found.append((Offset(header.base_offset), _describe_batch(generation, header, batch)))
    beginning = (await outage.repeat(lambda: client.offsets(*place))).beginning
    return ScanResult(found, at, beginning > start)


async def _batches(
    client: BrokerClient, place: TopicPartition, start: Offset, outage: Outage
) -> AsyncIterator[tuple[BatchHeader, Buffer]]:
    """Yield the batches from `start`, or from the log start if that is higher, to the high watermark."""
    at = start
    while True:
        try:
            fetched = await outage.repeat(
                lambda at=at: client.fetch_batches(*place, at, max_bytes=FETCH_BYTES, isolation=_ALL)  # type: ignore[misc]
            )
        except OffsetOutOfRange as error:
            if at >= error.first:
                return  # after the end: a new leader may have an older high watermark
            at = error.first
            continue
        for header, batch in read_batches(fetched.body):
            yield header, batch
            at = Offset(header.next_offset)
        if not fetched.body or at >= fetched.high_watermark:
            return


def _describe_batch(generation: int, header: BatchHeader, batch: Buffer) -> FoundBatch:
    """Return a stored batch with the digests of its records."""
    digests = [
        digest((record.timestamp, record.key, record.value, list(record.headers))) for record in read_records(batch)
    ]
    return FoundBatch(generation, header.base_sequence, header.last_offset_delta + 1, b"".join(digests))
