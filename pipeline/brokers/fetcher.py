"""Fetcher of the rows of a split from the partition's leader, in a task.

The next chunk is fetched while one is decoded, so at most two chunks of `fetch_max_bytes` are in memory (a single batch
can be larger). Reading ends exactly at the split's end. It waits for new leaders and restarted brokers. An answer
without records ends it only if the high watermark has reached the split's end, because compaction leaves gaps. Deleted
offsets or topics are reported as lost. A chunk begins after the last batch of the chunk before. Called by the readers,
in tasks, and by jobs."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from raftlog.client import BrokerClient
from raftlog.client.decode import read_batches
from raftlog.client.outage import Outage
from raftlog.errors import OffsetOutOfRange, Unavailable, UnknownPartition, UnknownTopic
from raftlog.pipeline.brokers.connection import PAUSE_S_MAX, BrokerConnection, refresh_addresses
from raftlog.pipeline.brokers.data_loss import report_loss
from raftlog.pipeline.brokers.split import BrokerSplit
from raftlog.pipeline.decoding import decode_rows
from raftlog.records import BatchHeader
from raftlog.types import TopicPartition

WAIT_MS: Final = 500
"""Maximum wait of a broker for records that it does not have yet, although another broker had them."""
_FETCH_BYTES_MIN: Final = 64 * 1024
_RECORD_BYTES_GUESSED: Final = 1024

Batch = tuple[BatchHeader, memoryview]


class Chunk(NamedTuple):
    """Consecutive batches from one fetch, `size` bytes in total; the next chunk begins at `next_offset`."""

    batches: list[Batch]
    next_offset: int
    size: int


def read_split(split: BrokerSplit) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the split, in order.

    Raises `DataLost`, `UndecodableBatch` unless the split skips it, `InvalidBatch` for damage, and `Unavailable`
    when there was no progress within the split's timeout."""
    return decode_rows(
        split.topic,
        split.partition,
        _read_batches(split),
        split.start,
        split.end,
        skips_undecodable=split.skips_undecodable,
    )


def read_rows(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Spark partition; none if Spark created it because there was no split."""
    return read_split(partition) if isinstance(partition, BrokerSplit) else iter(())


def _read_batches(split: BrokerSplit) -> Iterator[Batch]:
    """Yield all batches of the split; the next chunk is fetched while one is used."""
    if split.start >= split.end:
        return
    with BrokerConnection(split.bootstrap) as brokers:
        fetcher = _Fetcher(split)
        coming: Future[Chunk] | None = brokers.start(fetcher.fetch_first)
        while coming is not None:
            chunk = coming.result()
            coming = brokers.start(fetcher.fetch_next) if fetcher.offset < split.end else None
            yield from chunk.batches


class _Fetcher:
    """Fetcher of the batches of one split, in consecutive chunks; the next chunk begins at `offset`."""

    def __init__(self, split: BrokerSplit) -> None:
        """Prepare to fetch a split from its start on."""
        self._split = split
        self.offset = split.start
        self._bytes_wanted = self._choose_fetch_bytes(_RECORD_BYTES_GUESSED)

    async def fetch_first(self, client: BrokerClient) -> Chunk:
        """Return the first chunk; request it from the split's `leader` first, unless that is None."""
        split = self._split
        if split.leader is not None:
            client.learn_leader(TopicPartition(split.topic, split.partition), split.leader)
        return await self.fetch_next(client)

    async def fetch_next(self, client: BrokerClient) -> Chunk:
        """Wait for the next chunk and return it; advance `offset` to its `next_offset`."""
        with Outage(self._split.name, self._split.request_timeout_ms / 1000, PAUSE_S_MAX) as outage:
            while True:
                try:
                    chunk = await self._fetch(client)
                except Unavailable as error:
                    await outage.pause(Unavailable(f"{self._split.name}: {error}"))
                    await refresh_addresses(client)
                else:
                    self._bytes_wanted = self._choose_fetch_bytes(chunk.size / (chunk.next_offset - self.offset))
                    self.offset = chunk.next_offset
                    return chunk

    async def _fetch(self, client: BrokerClient) -> Chunk:
        """Return the chunk of one request; raises `Unavailable` if it is empty although the split continues."""
        split = self._split
        try:
            fetched = await client.fetch_batches(
                split.topic, split.partition, self.offset, timeout_ms=WAIT_MS, max_bytes=self._bytes_wanted
            )
        except (UnknownTopic, UnknownPartition):
            return self._report_lost("the topic was deleted", split.end)
        except OffsetOutOfRange as error:
            return await self._handle_out_of_range(client, error)
        if fetched.topic_id not in (None, split.topic_id):
            return self._report_replaced()
        batches = list(read_batches(fetched.body))
        if batches and batches[-1][0].next_offset > self.offset:
            return Chunk(batches, batches[-1][0].next_offset, len(fetched.body))
        if fetched.high_watermark >= split.end:  # only gaps
            return Chunk([], split.end, 0)
        raise Unavailable(
            f"the leader has only offsets below {fetched.high_watermark}, and {split.end} was read before"
        )

    async def _handle_out_of_range(self, client: BrokerClient, error: OffsetOutOfRange) -> Chunk:
        """Report the loss of the records at `offset`, and return an empty chunk. Raises `DataLost`."""
        split = self._split
        topic = (await client.cluster_view()).topics.get(split.topic)
        if topic is not None and topic.topic_id != split.topic_id:
            return self._report_replaced()
        if error.first > self.offset:
            return self._report_lost("they were deleted before they were read", min(error.first, split.end))
        return self._report_lost(f"the log ends at offset {error.end}, which is below what was seen", split.end)

    def _report_replaced(self) -> Chunk:
        """Report the loss of all remaining records of the split, whose topic was replaced. Raises `DataLost`."""
        return self._report_lost("the topic was deleted and created anew", self._split.end)

    def _report_lost(self, why: str, until: int) -> Chunk:
        """Report the loss of records before `until`, and return an empty chunk; raises `DataLost`."""
        lost = f"{self._split.name}: records from offset {self.offset} to {until} (exclusive) are lost: {why}"
        report_loss(lost, self._split.fail_on_data_loss)
        return Chunk([], until, 0)

    def _choose_fetch_bytes(self, record_bytes: float) -> int:
        """Return the bytes to request: enough for the rest of the split, at this size of a record."""
        left = int((self._split.end - self.offset) * record_bytes * 1.1)
        return min(self._split.fetch_max_bytes, max(left, _FETCH_BYTES_MIN))
