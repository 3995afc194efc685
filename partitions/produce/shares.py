"""Shares of a produce call: indexes of its records by partition, and the outcome of each partition's append.

    records → spread → one share for each partition → queued → settled

Shares succeed and fail independently. Used by calls of a few records (`spreading`) and by streams (`streams`)."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from raftlog.errors import RaftlogError
from raftlog.partitions.routing.topics import Topic
from raftlog.records import NewRecord
from raftlog.types import Offset

Streamed: TypeAlias = bytes | NewRecord
"""Record, or only its value when it has nothing else."""
AnyRecord = TypeVar("AnyRecord", NewRecord, Streamed)
PartitionChoice: TypeAlias = int | Sequence[int | None] | None
"""Partition for all records, or one for each; None chooses by the key."""


class Share(NamedTuple):
    """Outcome for the records of a call that go to one partition.

    `base_offset` is None when they failed, and with `acks=0`. `places` are the indexes of the records in the call."""

    partition: int
    places: Sequence[int]
    base_offset: Offset | None
    error: RaftlogError | None


class QueuedShare(NamedTuple):
    """Records of a call that are queued for one partition.

    `future` is None if they were refused, and with `acks=0`."""

    partition: int
    places: Sequence[int]
    future: "asyncio.Future[int] | None"
    error: RaftlogError | None = None

    async def wait_for_outcome(self) -> Share:
        """Wait for the append and return its outcome."""
        partition, places, future, error = self
        if future is None:
            return Share(partition, places, None, error)
        try:
            return Share(partition, places, Offset(await future), None)
        except RaftlogError as failed:
            return Share(partition, places, None, failed)


def spread(topic: Topic, choice: PartitionChoice, records: Sequence[Streamed]) -> dict[int, Sequence[int]]:
    """Choose the partition of each record; return the indexes of the records by partition.

    Partitions are in the order in which they first occur."""
    if choice is None and len(topic.partitions) == 1:
        choice = 0
    if type(choice) is int:
        return {choice: range(len(records))}
    assert choice is None or len(choice) == len(records), f"{len(choice)} choices for {len(records)} records"  # type: ignore[arg-type]
    places: dict[int, list[int]] = {}
    for place, record in enumerate(records):
        number = None if choice is None else choice[place]  # type: ignore[index]
        if number is None:
            number = topic.choose(None if type(record) is bytes else record.key)  # type: ignore[union-attr]
        places.setdefault(number, []).append(place)
    return dict(places)


def records_at(places: Sequence[int], records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
    """Return the records with these indexes."""
    return records if len(places) == len(records) else [records[place] for place in places]
