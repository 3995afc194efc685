"""One produce call: its records are spread over partitions, queued there in their order, and answered together."""

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.produce.pending import record_size
from raftlog.partitions.results import Acks, ProducerSequence, RecordResult
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic
from raftlog.records import NewRecord

PartitionChoice: TypeAlias = int | Sequence[int | None] | None


async def produce_records(
    topic: Topic, choice: PartitionChoice, records: Sequence[NewRecord], acks: Acks, deadline: Deadline
) -> list[RecordResult]:
    """One result for each record, in their order."""
    if len(records) == 1:
        record = records[0]
        number = choice if choice is None or type(choice) is int else choice[0]  # type: ignore[index]
        if number is None:
            number = topic.choose(record.key)
        try:
            partition = topic.partition(number)
            pending = partition.pending_records(records, acks, deadline)
            if not partition.queue.maybe_add(pending):
                await partition.queue.add_when_room(pending)
            future = pending.future
            return [RecordResult(number, None if future is None else await future, None)]
        except RaftlogError as error:
            return [RecordResult(number, None, error)]
    results: list[RecordResult | None] = [None] * len(records)
    queued = []
    for number, places in _spread(topic, choice, records).items():
        queued.append(await _queue(topic, number, places, records, results, acks, deadline))
    for share in queued:
        await share.collect(results)
    return [result for result in results if result is not None]


async def produce_sequenced(
    topic: Topic,
    choice: PartitionChoice,
    records: Sequence[NewRecord],
    producer: ProducerSequence,
    acks: Acks,
    deadline: Deadline,
) -> list[RecordResult]:
    """The same for an idempotent producer, whose records all go to one partition, as one batch.

    Sequences count in a partition, so a retry has to meet the same one: it has to be named. Raises `InvalidArgument`
    when it is not.
    """
    named = {choice} if choice is None or type(choice) is int else set(choice)  # type: ignore[arg-type]
    number = next(iter(named)) if len(named) == 1 else None
    if number is None and len(topic.partitions) == 1 and named == {None}:
        number = 0
    if number is None:
        raise InvalidArgument(
            f"topic {topic.name}: the records of an idempotent producer's call all go to one partition, which the call "
            "has to name: its sequence is that partition's"
        )
    try:
        done = await topic.partition(number).produce_sequenced(records, producer, acks, deadline)
    except RaftlogError as error:
        return [RecordResult(number, None, error) for _ in records]
    if done.base_offset < 0:
        return [RecordResult(number, None, None) for _ in records]
    return [RecordResult(number, done.base_offset + at, None, done.is_duplicate) for at in range(len(records))]


def _spread(topic: Topic, choice: PartitionChoice, records: Sequence[NewRecord]) -> dict[int, Sequence[int]]:
    """Places of the records by partition, in the order in which each partition is first named."""
    if type(choice) is int:
        return {choice: range(len(records))}
    if choice is None:
        if len(topic.partitions) == 1:
            return {0: range(len(records))}
        choice = [None] * len(records)
    places: dict[int, list[int]] = {}
    for place, (record, number) in enumerate(zip(records, choice, strict=True)):  # type: ignore[arg-type]
        chosen = topic.choose(record.key) if number is None else number
        places.setdefault(chosen, []).append(place)
    return dict(places)


class _PartitionShare:
    """What one partition got of a call."""

    __slots__ = ("future", "number", "places")

    def __init__(self, number: int, places: Sequence[int], future: "asyncio.Future[int] | None") -> None:
        self.number, self.places, self.future = number, places, future

    async def collect(self, results: list[RecordResult | None]) -> None:
        number = self.number
        if self.future is None:
            for place in self.places:
                results[place] = RecordResult(number, None, None)
            return
        try:
            offset = await self.future
        except RaftlogError as error:
            for place in self.places:
                results[place] = RecordResult(number, None, error)
            return
        for place in self.places:
            results[place] = RecordResult(number, offset, None)
            offset += 1


async def _queue(
    topic: Topic,
    number: int,
    places: Sequence[int],
    records: Sequence[NewRecord],
    results: list[RecordResult | None],
    acks: Acks,
    deadline: Deadline,
) -> _PartitionShare:
    """Queue one partition's share; records that cannot be stored get their result at once."""
    try:
        partition = topic.partition(number)
        places = _without_unstorable(partition, number, places, records, results)
        if not places:
            return _PartitionShare(number, (), None)
        some = records if len(places) == len(records) else [records[place] for place in places]
        return _PartitionShare(number, places, await partition.enqueue_records(some, acks, deadline))
    except RaftlogError as error:
        for place in places:
            results[place] = RecordResult(number, None, error)
        return _PartitionShare(number, (), None)


def _without_unstorable(
    partition: Partition,
    number: int,
    places: Sequence[int],
    records: Sequence[NewRecord],
    results: list[RecordResult | None],
) -> Sequence[int]:
    refused = set()
    for place in places:
        try:
            partition.check_size(record_size(records[place]))
            partition.check_keys(records[place : place + 1])
        except RaftlogError as error:
            results[place] = RecordResult(number, None, error)
            refused.add(place)
    return [place for place in places if place not in refused] if refused else places
