"""Produce calls of a few records: spread over partitions, queued there in order, and answered together."""

import asyncio
from collections.abc import Sequence

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.produce.pending import record_size
from raftlog.partitions.produce.shares import PartitionChoice, QueuedShare, records_at, spread
from raftlog.partitions.results import Acks, Produced, ProducerSequence, RecordResult
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic
from raftlog.records import NewRecord
from raftlog.types import Offset

_QueuedRecord = tuple[int, "asyncio.Future[int] | None", RaftlogError | None]
"""Partition of a record, the future of its offset (None with `acks=0`), and the error if it was refused."""


def try_queue_record(
    topic: Topic, choice: PartitionChoice, records: Sequence[NewRecord], acks: Acks, deadline: Deadline
) -> _QueuedRecord | None:
    """Queue the record of a call that has one record, without a coroutine; None if its partition's queue is full."""
    number = choice if choice is None or type(choice) is int else choice[0]  # type: ignore[index]
    if number is None:
        number = topic.choose(records[0].key)
    try:
        pending = topic.partition(number).try_queue_record(records, acks, deadline)
    except RaftlogError as error:
        return number, None, error
    return None if pending is None else (number, pending.future, None)


async def produce_records(
    topic: Topic, choice: PartitionChoice, records: Sequence[NewRecord], acks: Acks, deadline: Deadline
) -> list[RecordResult]:
    """Append the records and return one result each, in order."""
    results: list[RecordResult | None] = [None] * len(records)
    queued = []
    for number, places in spread(topic, choice, records).items():
        queued.append(await _queue(topic, number, places, records, results, acks, deadline))
    for each in queued:
        number, places, offset, refusal = await each.wait_for_outcome()
        for place in places:
            results[place] = RecordResult(number, offset, refusal)
            if offset is not None:
                offset = Offset(offset + 1)
    return [result for result in results if result is not None]


async def produce_sequenced(
    topic: Topic,
    choice: PartitionChoice,
    records: Sequence[NewRecord],
    producer: ProducerSequence,
    acks: Acks,
    deadline: Deadline,
) -> list[RecordResult]:
    """Append records of an idempotent producer to one partition as one batch; return one result each, in order.

    Raises as `sequenced_partition`."""
    number = sequenced_partition(topic, choice)
    try:
        done = await topic.partition(number).produce_sequenced(records, producer, acks, deadline)
    except RaftlogError as error:
        return [RecordResult(number, None, error) for _ in records]
    return sequenced_results(number, len(records), done)


def sequenced_partition(topic: Topic, choice: PartitionChoice) -> int:
    """Return the one partition for the records of an idempotent producer's call.

    Sequences are counted per partition, so a retry must go to the same one. So the call must name it, unless the topic
    has only one. Raises `InvalidArgument` otherwise."""
    named = {choice} if choice is None or type(choice) is int else set(choice)  # type: ignore[arg-type]
    number = next(iter(named)) if len(named) == 1 else None
    if number is None and len(topic.partitions) == 1 and named == {None}:
        number = 0
    if number is None:
        raise InvalidArgument(
            f"topic {topic.name}: the records of an idempotent producer's call all go to one partition, which the call "
            "has to name: its sequence is that partition's"
        )
    return number


def sequenced_results(number: int, count: int, done: Produced) -> list[RecordResult]:
    """Return the results of the records that were appended as one batch."""
    if done.base_offset < 0:
        return [RecordResult(number, None, None)] * count
    return [RecordResult(number, done.base_offset + at, None, done.is_duplicate) for at in range(count)]


async def _queue(
    topic: Topic,
    number: int,
    places: Sequence[int],
    records: Sequence[NewRecord],
    results: list[RecordResult | None],
    acks: Acks,
    deadline: Deadline,
) -> QueuedShare:
    """Queue the records for one partition; set the results of records that cannot be stored."""
    try:
        partition = topic.partition(number)
        places = _drop_unstorable(partition, number, places, records, results)
        if not places:
            return QueuedShare(number, (), None)
        some = records_at(places, records)
        return QueuedShare(number, places, await partition.enqueue_records(some, acks, deadline))
    except RaftlogError as error:
        return QueuedShare(number, places, None, error)


def _drop_unstorable(
    partition: Partition,
    number: int,
    places: Sequence[int],
    records: Sequence[NewRecord],
    results: list[RecordResult | None],
) -> Sequence[int]:
    """Return the indexes of records that can be stored; set the results of the others."""
    refused = set()
    for place in places:
        try:
            partition.check_size(record_size(records[place]))
            partition.check_records(records[place : place + 1])
        except RaftlogError as error:
            results[place] = RecordResult(number, None, error)
            refused.add(place)
    return [place for place in places if place not in refused] if refused else places
