"""Offsets that transactions commit in a coordinator's groups, and the ends of these transactions.

    commit    offsets become pending: stored beside the committed ones
    end       a commit makes the pending offsets of the producer the committed ones; an abort removes them

A pending commit needs permission for its producer id and epoch: the transaction's coordinator confirmed that the group
is in the open transaction. Every end revokes the permission, and invalidates a pending request for it (the guard), so a
late commit cannot stay pending after its transaction. A group that joins learns the number of the transaction, and ends
of earlier ones do not affect it. An end is fenced by the epochs of the last one; one with the number of an earlier
transaction is a repetition, and changes nothing. Entries of one call are appended together, in the order of the
decisions. Owned by a coordinator; called by its operations."""

from collections.abc import Mapping
from typing import Final

from raftlog.errors import ConcurrentTransactions, CoordinatorFenced, Overloaded, ProducerFenced, RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.environment import GroupEnvironment
from raftlog.partitions.groups.folded import GroupEntry
from raftlog.partitions.groups.offsets import Offsets, OffsetsPort, check_offsets
from raftlog.partitions.groups.records import (
    GroupProducerKey,
    GroupProducerRecord,
    OffsetKey,
    PendingOffsetKey,
    PendingOffsetRecord,
)
from raftlog.partitions.groups.results import (
    GroupMarker,
    MemberIdentity,
    OffsetCommit,
    Place,
    TransactionalProducer,
)

PENDING_MAX: Final = 100_000
"""Limit of the pending offsets of one coordinator; more are refused."""
_PERMISSIONS_MAX: Final = 100_000
"""Limit of the producers with permission at one coordinator; more are refused."""
_ANY: Final = 1 << 63
"""Number above those of all transactions."""
_Enlisted = tuple[str, int]
"""Group and producer id."""


class _Guard:
    """Pending request for permission; the end of its transaction invalidates it."""

    def __init__(self) -> None:
        self.ended = -1
        """Highest number of the producer's transactions that ended meanwhile; `_ANY` if one is unknown."""


class GroupTransactions:
    """Transactional offset commits in the groups of one coordinator."""

    def __init__(self, coordinator: OffsetsPort, offsets: Offsets, environment: GroupEnvironment) -> None:
        """Begin without confirmed transactions."""
        self._coordinator, self._offsets, self._environment = coordinator, offsets, environment
        self._folded = coordinator.folded
        self._permissions: dict[_Enlisted, TransactionalProducer] = {}
        """Producers whose open transaction was confirmed."""
        self._guards: dict[_Enlisted, set[_Guard]] = {}

    async def commit(
        self,
        group: str,
        offsets: Mapping[Place, OffsetCommit],
        producer: TransactionalProducer,
        member: MemberIdentity,
        joins: bool,
        deadline: Deadline,
    ) -> None:
        """Store offsets as pending until the end of the transaction; raises as `Groups.commit_pending`."""
        check_offsets(offsets)
        await self._coordinator.wait_until_ready(deadline)
        self._offsets.check_topics(offsets)
        self._offsets.check_room(group)
        await self._get_permission(group, producer, joins, deadline)
        refusal = self._producer_error(group, producer)
        refusal = refusal or self._coordinator.commit_error(group, member, is_transactional=True)
        if refusal is not None:
            await self._coordinator.confirm(deadline)
            raise refusal
        if self._folded.pending_count + len(offsets) > PENDING_MAX:
            raise Overloaded(f"{self._coordinator.replica.name}: {PENDING_MAX} offsets of open transactions, the limit")
        now_ms = self._environment.wall_ms()
        entries = [
            GroupEntry(
                PendingOffsetKey(group, producer.producer_id, *place),
                PendingOffsetRecord(commit.offset, commit.leader_epoch, commit.metadata, now_ms, producer.epoch),
            )
            for place, commit in offsets.items()
        ]
        await self._coordinator.commit_entries(entries, deadline)

    async def end(self, group: str, marker: GroupMarker, deadline: Deadline) -> None:
        """End the transaction of a producer in a group; raises as `Groups.end_transaction`."""
        await self._coordinator.wait_until_ready(deadline)
        known = await self._check_marker(group, marker, deadline)
        key = GroupProducerKey(group, marker.producer_id)
        if not _is_repeated(marker, known):
            self._revoke_permission(key, marker.number)
        if self._folded.is_producer_ahead(*key):
            await self._coordinator.wait_for_pending(deadline)  # a commit that is being appended may still be refused
        known = await self._check_marker(group, marker, deadline)
        if _is_repeated(marker, known):
            await self._coordinator.wait_for_pending(deadline)  # the first one may be being appended
            return
        pending = self._folded.latest_pending(*key)
        entries: list[GroupEntry] = []
        for each, record in pending.items():
            if marker.is_commit and not self._environment.is_deleted(each.topic_id):
                entries.append(GroupEntry(OffsetKey(group, each.topic_id, each.partition), record.committed()))
                self._environment.counters.group_commits += 1
            entries.append(GroupEntry(each, None))
        number = max(marker.number, 0 if known is None else known.number)
        ended = GroupProducerRecord(marker.epoch, marker.coordinator_epoch, self._environment.wall_ms(), number)
        await self._coordinator.commit_entries([*entries, GroupEntry(key, ended)], deadline)

    async def _check_marker(self, group: str, marker: GroupMarker, deadline: Deadline) -> GroupProducerRecord | None:
        """Return the record of the producer's last marker, or None. Raises the error of a fenced `marker`."""
        known = self._folded.latest_producer(group, marker.producer_id)
        pending = self._folded.latest_pending(group, marker.producer_id).values()
        refusal = _marker_error(marker, known, max((record.epoch for record in pending), default=-1))
        if refusal is not None:
            await self._coordinator.confirm(deadline)
            raise refusal
        return known

    # permission

    async def _get_permission(
        self, group: str, producer: TransactionalProducer, joins: bool, deadline: Deadline
    ) -> None:
        """Ask the transaction's coordinator for permission unless it was given in this term.

        A group that joins waits there for the end of the producer's last transaction, which may still be open here."""
        enlisted = group, producer.producer_id
        refusal = self._producer_error(group, producer)
        if refusal is not None and not (joins and isinstance(refusal, ConcurrentTransactions)):
            await self._coordinator.confirm(deadline)
            raise refusal
        if self._permissions.get(enlisted) == producer:
            return
        if enlisted not in self._permissions and len(self._permissions) >= _PERMISSIONS_MAX:
            raise Overloaded(f"{self._coordinator.replica.name}: {_PERMISSIONS_MAX} open transactions, the limit")
        guard = _Guard()
        self._guards.setdefault(enlisted, set()).add(guard)
        try:
            if joins:
                number = await self._environment.join_transaction(producer, group, deadline)
            else:
                await self._environment.verify_transaction(producer, group, deadline)
                number = 0
        finally:
            self._guards[enlisted].discard(guard)
            if not self._guards[enlisted]:
                del self._guards[enlisted]
        if number <= guard.ended or self._has_ended(enlisted, number):
            raise ConcurrentTransactions(
                f"group {group}: a transaction of producer {producer.producer_id} ended meanwhile; retry"
            )
        self._permissions[enlisted] = producer

    def _revoke_permission(self, enlisted: _Enlisted, number: int) -> None:
        """Revoke the permission of a producer because its transaction of this number ends."""
        self._permissions.pop(enlisted, None)
        for guard in self._guards.get(enlisted, ()):
            guard.ended = max(guard.ended, number or _ANY)

    def _has_ended(self, enlisted: _Enlisted, number: int) -> bool:
        """Return whether the transaction had ended before: then a deposed coordinator has confirmed it."""
        known = self._folded.latest_producer(*enlisted)
        return known is not None and 0 < number <= known.number

    def _producer_error(self, group: str, producer: TransactionalProducer) -> RaftlogError | None:
        """Return the error for a producer whose epoch is older than the last marker, or newer than pending offsets."""
        _, producer_id, epoch = producer
        known = self._folded.latest_producer(group, producer_id)
        if known is not None and epoch < known.epoch:
            return ProducerFenced(f"producer {producer_id} has epoch {epoch}; epoch {known.epoch} has replaced it")
        for record in self._folded.latest_pending(group, producer_id).values():
            if record.epoch > epoch:
                return ProducerFenced(f"producer {producer_id} has epoch {epoch}; epoch {record.epoch} has replaced it")
            if record.epoch < epoch:
                return ConcurrentTransactions(
                    f"group {group}: the transaction of producer {producer_id} with epoch {record.epoch} is open; retry"
                )
        return None


def _is_repeated(marker: GroupMarker, known: GroupProducerRecord | None) -> bool:
    """Return whether the transaction of a marker has ended before, so that pending offsets are of a later one."""
    return known is not None and 0 < marker.number <= known.number


def _marker_error(marker: GroupMarker, known: GroupProducerRecord | None, pending_epoch: int) -> RaftlogError | None:
    """Return the error for a marker that is older than the last one, or than the pending offsets."""
    newest = max(pending_epoch, -1 if known is None else known.epoch)
    if marker.epoch < newest:
        return ProducerFenced(f"producer {marker.producer_id} has epoch {newest}; the marker has {marker.epoch}")
    if known is not None and marker.coordinator_epoch < known.coordinator_epoch:
        return CoordinatorFenced(
            f"the marker for producer {marker.producer_id} is of coordinator epoch {marker.coordinator_epoch}; "
            f"{known.coordinator_epoch} has replaced it"
        )
    return None
