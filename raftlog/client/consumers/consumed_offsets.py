"""Offsets of a consumer's records that a transaction commits: those of the last poll before it, and later ones.

    begin → records are handed out → collect → set_committed          or → rewind, so that they are handed out again

No records are handed out in a transaction after a rebalance: the offsets of the earlier ones could not be committed.
Owned by a `Consumer`, called by its transaction."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from raftlog.client.consumers.commits import Commits
from raftlog.client.consumers.consumer_settings import ConsumerRecord
from raftlog.client.consumers.handed_records import HandedRecords
from raftlog.client.group_answers import Membership
from raftlog.errors import InvalidArgument, StaleGeneration
from raftlog.types import Offset, TopicPartition


class OffsetsOfGroup(NamedTuple):
    """Offsets to commit for a consumer group; `member` is None for partitions that were assigned by hand."""

    group: str
    offsets: dict[TopicPartition, Offset]
    member: Membership | None


class ConsumedOffsets:
    """Offsets of the records that one consumer returned during a transaction; one transaction at a time."""

    def __init__(
        self, group: str, commits: Commits, handed: HandedRecords, seek: Callable[[TopicPartition, Offset], None]
    ) -> None:
        """Begin without a transaction.

        `handed` has the positions of returned records, and `seek` resets a position after an abort."""
        self._group, self._commits, self._handed, self._seek = group, commits, handed, seek
        self._starts: dict[TopicPartition, Offset] | None = None
        """Offsets at the begin of the open transaction; None without one."""
        self._used: set[TopicPartition] = set()
        """Partitions with records in the transaction."""
        self._member: Membership | None = None
        """Membership of the consumer when the records of the transaction were returned."""

    async def begin(self) -> None:
        """Begin a transaction. Raises `InvalidArgument` if one is open."""
        if self._starts is not None:
            raise InvalidArgument("a transaction of this consumer is open")
        self._starts = self._handed.processed()
        self._used = {TopicPartition(record.topic, record.partition) for record in self._handed.last_handed}
        self._member = self._commits.membership

    def check_generation(self) -> None:
        """Raise `StaleGeneration` if the group rebalanced after the open transaction had taken records."""
        if self._starts is None:
            return
        member = self._commits.membership
        if not self._used:
            self._member = member
        elif member != self._member or not self._used <= self._handed.handed_out().keys():
            raise StaleGeneration(f"the group {self._group} rebalanced during the transaction, which must be aborted")

    def record(self, taken: Sequence[ConsumerRecord]) -> None:
        """Record the offsets of the records that the next `poll` returns."""
        if self._starts is None:
            return
        for record in taken:
            if (record.topic, record.partition) not in self._used:
                place = TopicPartition(record.topic, record.partition)
                self._used.add(place)
                self._starts.setdefault(place, record.offset)

    async def collect(self) -> OffsetsOfGroup:
        """Return the offsets to commit, which may be none. Raises as `check_generation`, and `UnknownMember`."""
        self.check_generation()
        offsets = self._commits.find_uncommitted(self._handed.handed_out())
        return OffsetsOfGroup(self._group, offsets, self._commits.require_membership() if offsets else None)

    async def set_committed(self, offsets: OffsetsOfGroup) -> None:
        """End the transaction, which was committed: its records are processed."""
        self._starts = None
        self._handed.last_handed = ()
        self._commits.set_committed(offsets.offsets)

    async def rewind(self) -> None:
        """End the transaction, which was aborted: the consumer returns its records again."""
        starts, self._starts = self._starts or {}, None
        if self._commits.membership != self._member:
            self._handed.last_handed = ()
            return  # the new assignment begins at the committed offsets
        positions = self._handed.handed_out()
        for place in self._used:
            if place in positions and positions[place] != starts[place]:
                self._seek(place, starts[place])
