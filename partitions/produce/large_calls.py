"""Produce calls of very many or very large records: checked, spread and built into batches in slices.

Records of a small call are built into batches by the queue of their partition. A call with 200,000 records would block
the loop for half a second there, so it brings ready-made batches. Nothing is queued before all records are checked.
Called by the broker."""

from collections.abc import Generator, Iterable, Sequence
from typing import Final

from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.produce.pending import record_size
from raftlog.partitions.produce.shares import PartitionChoice
from raftlog.partitions.results import Acks, RecordResult
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic
from raftlog.records import HEADER_SIZE, BatchBuilder, NewRecord
from raftlog.runtime.slices import run_in_slices

_STEP_RECORDS: Final = 64
_STEP_BYTES: Final = 16 * 1024
"""Bytes or records after which other work may run: hashing a key takes 50 ns a byte."""


class _Share:
    """Records of a produce call that go to one partition, collected into batches."""

    __slots__ = ("_builder", "_room", "batches", "number", "partition", "places")

    def __init__(self, number: int, partition: Partition) -> None:
        """Begin the share of one partition, without records; `number` is the partition's."""
        self.number, self.partition = number, partition
        self.places: list[int] = []
        self.batches: list[bytearray] = []
        self._builder: BatchBuilder | None = None
        self._room = 0

    def add(self, place: int, record: NewRecord, size: int, now_ms: int) -> None:
        """Add the record at `place` in the call, of `size` bytes. Raises the error of a refused record."""
        self.partition.check_size(size)
        self.partition.check_records((record,))
        if self._builder is None or size > self._room:
            self.end_batch()
            self._builder, self._room = BatchBuilder(), self.partition.batch_bytes_max - HEADER_SIZE
        self._builder.append(record, now_ms)
        self._room -= size
        self.places.append(place)

    def end_batch(self) -> None:
        """End the batch; the next record begins a new one."""
        if self._builder is not None and self._builder.count:
            self.batches.append(self._builder.build())
        self._builder = None


async def produce_large(
    topic: Topic, choice: PartitionChoice, records: Sequence[NewRecord], acks: Acks, deadline: Deadline, now_ms: int
) -> list[RecordResult]:
    """Append the records and return one result for each, in order; `now_ms` is for records without a timestamp."""
    results: list[RecordResult | None] = [None] * len(records)
    shares = await run_in_slices(_split_into_shares(topic, choice, records, results, now_ms))
    queued = []
    for share in shares:
        try:
            queued.append(await share.partition.enqueue_batches(share.batches, len(share.places), acks, deadline))
        except RaftlogError as error:
            await run_in_slices(_set_error(share, error, results))
            queued.append(None)
    for share, future in zip(shares, queued, strict=True):
        try:
            base = None if future is None else await future
        except RaftlogError as error:
            await run_in_slices(_set_error(share, error, results))
        else:
            await run_in_slices(_set_offsets(share, base, results))
    return [result for result in results if result is not None]


def _split_into_shares(
    topic: Topic,
    choice: PartitionChoice,
    records: Sequence[NewRecord],
    results: list[RecordResult | None],
    now_ms: int,
) -> Generator[None, None, list[_Share]]:
    """Group the records by partition, in the order in which partitions first occur; set the results of refused ones."""
    shares: dict[int, _Share] = {}
    count = looked_at = 0
    for place, record in enumerate(records):
        number = choice if choice is None or type(choice) is int else choice[place]  # type: ignore[index]
        try:
            size = record_size(record)
            if number is None:
                number = topic.choose(record.key if size <= topic.config.max_message_bytes else None)
            share = shares.get(number)
            if share is None:
                share = shares[number] = _Share(number, topic.partition(number))
            share.add(place, record, size, now_ms)
        except RaftlogError as error:
            results[place] = RecordResult(number or 0, None, error)
        count, looked_at = count + 1, looked_at + size
        if count >= _STEP_RECORDS or looked_at >= _STEP_BYTES:
            count = looked_at = 0
            yield
    for share in shares.values():
        share.end_batch()
    return [share for share in shares.values() if share.places]


def _set_error(share: _Share, error: RaftlogError, results: list[RecordResult | None]) -> Generator[None, None, None]:
    """Set the error as the result of each record of a share, with pauses."""
    for place in _with_pauses(share.places):
        if place is None:
            yield
        elif results[place] is None:
            results[place] = RecordResult(share.number, None, error)


def _set_offsets(share: _Share, base: int | None, results: list[RecordResult | None]) -> Generator[None, None, None]:
    """Set the results of a share's records: offsets from `base` on, or None if it is None (`acks=0`); with pauses."""
    offset = base
    for place in _with_pauses(share.places):
        if place is None:
            yield
        elif results[place] is None:
            results[place] = RecordResult(share.number, offset, None)
            offset = None if offset is None else offset + 1


def _with_pauses(places: Iterable[int]) -> Generator[int | None, None, None]:
    """Yield the given places, and None (a pause for other tasks) before each `_STEP_RECORDS` of them."""
    for count, place in enumerate(places):
        if count % _STEP_RECORDS == 0:
            yield None
        yield place
