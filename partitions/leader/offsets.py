"""Offsets, leader epochs and deletion of records of partitions that this node leads. Called by listeners.

The end of a partition never goes back across leaders: a majority confirms the leader before it reports one. Requests
with the client's leader epoch are refused when it is not the leader's (KIP-320)."""

from typing import Final, NamedTuple

from raftlog.errors import InvalidTopic, NotLeader, OffsetOutOfRange, UnknownTopic
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.leader.fetch import check_epoch
from raftlog.partitions.replica import Replica
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.runtime.log.epochs import end_of_term, term_of_record
from raftlog.types import Isolation, Offset

UNKNOWN: Final = -1
"""Number that stands for no offset, no timestamp or no epoch."""
NO_OFFSET: Final = Offset(UNKNOWN)


class FoundOffset(NamedTuple):
    """Offset with the epoch of its record, and its timestamp after a lookup by time."""

    offset: Offset
    leader_epoch: int
    timestamp: int = UNKNOWN


class LeaderOffsets:
    """Reads of offsets at the leader; one instance per process."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def _topic(self, name: str) -> Topic:
        """Return the topic with this name. Raises `UnknownTopic`."""
        found = self._topics.get(name)
        if found is None:
            raise UnknownTopic(f"topic {name!r} does not exist; create it first")
        return found

    def _replica(self, topic: str, number: int, leader_epoch: int) -> Replica:
        """Return the replica if it leads.

        Raises `UnknownTopic`, `UnknownPartition`, and the errors of `check_epoch`.
        """
        partition = self._topic(topic).partition(number)
        if partition.replica is None:
            raise NotLeader(f"{partition.name}: this broker has no replica of it")
        check_epoch(partition.replica, leader_epoch)
        return partition.replica

    async def first_offset(self, topic: str, number: int, leader_epoch: int, deadline: Deadline) -> FoundOffset:
        """Return the log start offset, without an epoch if the log is empty. Raises like `Replica.offsets`."""
        replica = self._replica(topic, number, leader_epoch)
        beginning, end = await replica.offsets(False, deadline)
        return FoundOffset(beginning, _epoch_at(replica, beginning) if beginning < end else UNKNOWN)

    async def end_offset(
        self,
        topic: str,
        number: int,
        leader_epoch: int,
        deadline: Deadline,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> FoundOffset:
        """Return the high watermark or the last stable offset, and the epoch of the record before it."""
        replica = self._replica(topic, number, leader_epoch)
        beginning, end = await replica.offsets(True, deadline, isolation)
        return FoundOffset(end, _epoch_at(replica, end - 1) if beginning < end else UNKNOWN)

    async def offset_for_timestamp(
        self,
        topic: str,
        number: int,
        leader_epoch: int,
        timestamp_ms: int,
        deadline: Deadline,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> FoundOffset:
        """Return the first record whose timestamp is at least the given one; `NO_OFFSET` if there is none (KIP-79)."""
        replica = self._replica(topic, number, leader_epoch)
        found = await replica.offset_for_timestamp(timestamp_ms, deadline, isolation)
        if found is None:
            return FoundOffset(NO_OFFSET, UNKNOWN)
        return FoundOffset(found[0], _epoch_at(replica, found[0]), found[1])

    def end_of_epoch(self, topic: str, number: int, leader_epoch: int, asked_epoch: int) -> FoundOffset:
        """Return the highest leader epoch up to `asked_epoch`, and its end offset; `NO_OFFSET` for a future epoch.

        Uncommitted records count, since the log of a new leader has everything that was committed."""
        replica = self._replica(topic, number, leader_epoch)
        if not 0 <= asked_epoch <= replica.group.core.term:
            return FoundOffset(NO_OFFSET, UNKNOWN)
        epoch, end = end_of_term(replica.group.log, asked_epoch)
        return FoundOffset(end, epoch)

    async def delete_before(self, topic: str, number: int, offset: int | None, deadline: Deadline) -> Offset:
        """Delete the records below `offset` (None: below the last stable offset); return the log start offset.

        Raises like `Replica.delete_before`, for a negative offset too, and `InvalidTopic` for an internal topic."""
        if self._topic(topic).is_internal:
            raise InvalidTopic(f"topic {topic} is internal; only brokers shorten it")
        replica = self._replica(topic, number, UNKNOWN)
        if offset is None:
            offset = (await replica.offsets(True, deadline, Isolation.READ_COMMITTED)).end
        if offset < 0:
            raise OffsetOutOfRange(offset, replica.group.committed_start_offset, replica.group.high_watermark)
        return await replica.delete_before(offset, deadline)


def _epoch_at(replica: Replica, offset: int) -> int:
    """Return the leader epoch of a record; `UNKNOWN` if the log does not have it."""
    term = term_of_record(replica.group.log, offset)
    return UNKNOWN if term is None else term
