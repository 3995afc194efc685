"""Streams of records, appended block by block: spread over partitions, built into batches, answered per partition.

Unlike `spreading`, which answers for each record, the cost is per batch: only the bytes of a record are kept.
A share is all or nothing; shares of one block succeed and fail independently.

    a partition's records of one block stand one after another

Blocks keep their order when each is appended after the answer to the previous one. Used by `api`."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, Self

from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.produce.pending import RECORD_OVERHEAD_BYTES, record_size
from raftlog.partitions.produce.shares import PartitionChoice, QueuedShare, Share, Streamed, records_at, spread
from raftlog.partitions.results import Acks
from raftlog.partitions.routing.partition import CALL_BYTES_MAX
from raftlog.partitions.routing.topics import Topic
from raftlog.records import HEADER_SIZE, NewRecord, build_batch
from raftlog.topic_config import TopicConfig


class StreamBounds(NamedTuple):
    """Bounds of a stream into a topic, in bytes."""

    record_bytes_max: int
    """Largest record, including its key, headers and overhead."""
    block_bytes_max: int
    """Largest block of several records: half a segment, so that segments are filled at least by half."""

    @classmethod
    def of(cls, config: TopicConfig) -> Self:
        """Return the bounds of streams into a topic with these settings."""
        return cls(
            min(config.max_message_bytes, CALL_BYTES_MAX) - HEADER_SIZE - RECORD_OVERHEAD_BYTES,
            min(CALL_BYTES_MAX, config.segment_bytes // 2),
        )


class ProduceStream:
    """Stream of records into one topic, or into the given partition. Made by the broker.

    Once the topic is deleted, the stream refuses further records, even when a topic of the same name exists."""

    def __init__(
        self,
        topic: Topic,
        partition: int | None,
        wall_ms: Callable[[], int],
        refresh_errors: Callable[[list[Share], Topic, Deadline], Awaitable[list[Share]]],
        look_up: Callable[[Topic, PartitionChoice, Deadline], Awaitable[None]],
    ) -> None:
        """Begin a stream. Raises `UnknownPartition`. `refresh_errors` and `look_up`: see `Finder`."""
        if partition is not None:
            topic.partition(partition)
        self._topic, self._partition, self._wall_ms, self._refresh_errors = topic, partition, wall_ms, refresh_errors
        self._look_up = look_up
        self.bounds = StreamBounds.of(topic.config)

    async def append(
        self, records: Sequence[Streamed], named: Sequence[int | None] | None, acks: Acks, deadline: Deadline
    ) -> list[Share]:
        """Append a block of records and return one outcome for each partition.

        `named` has the partition or None for each record; None if no record names one. Records without a timestamp get
        the time of the append. A record that is too large fails all records of its partition."""
        now_ms = self._wall_ms()
        queued = []
        choice = named if self._partition is None else self._partition
        if choice is not None:
            await self._look_up(self._topic, choice, deadline)
        for number, places in spread(self._topic, choice, records).items():
            some = records_at(places, records)
            queued.append(await _queue(self._topic, number, places, some, acks, deadline, now_ms))
        shares = [await each.wait_for_outcome() for each in queued]
        return await self._refresh_errors(shares, self._topic, deadline)


async def _queue(
    topic: Topic,
    number: int,
    places: Sequence[int],
    records: Sequence[Streamed],
    acks: Acks,
    deadline: Deadline,
    now_ms: int,
) -> QueuedShare:
    """Check and enqueue the records for one partition; the result holds the error, if any."""
    try:
        target = topic.partition(number)
        sizes = [_size(record) for record in records]
        target.check_size(max(sizes))
        if target.checks_records:
            target.check_records([NewRecord(each) if type(each) is bytes else each for each in records])  # type: ignore[misc]
        batches = [
            build_batch(part, now_ms=now_ms) for part in _split(records, sizes, target.batch_bytes_max - HEADER_SIZE)
        ]
        future = await target.enqueue_batches(batches, len(records), acks, deadline)
    except RaftlogError as error:
        return QueuedShare(number, places, None, error)
    return QueuedShare(number, places, future)


def _size(record: Streamed) -> int:
    """Return the size of a record in bytes, with its overhead."""
    return len(record) + RECORD_OVERHEAD_BYTES if type(record) is bytes else record_size(record)  # type: ignore[arg-type]


def _split(records: Sequence[Streamed], sizes: Sequence[int], bound: int) -> Iterator[list[Streamed]]:
    """Yield the records in order, in parts that fit into a batch, with at least one record each."""
    begin = filled = 0
    for place, size in enumerate(sizes):
        if filled + size > bound and place > begin:
            yield list(records[begin:place])
            begin, filled = place, 0
        filled += size
    yield list(records[begin:])
