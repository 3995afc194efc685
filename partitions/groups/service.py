"""Consumer groups through any broker: membership, committed offsets, and reads and changes by operators.

    a group's coordinator is the leader of partition murmur2(group) mod n of `__consumer_offsets`
    every broker accepts every call and forwards it there, by one hop

All calls have a deadline (`partitions.deadline`) and raise from `raftlog.errors`: one that may have taken effect
raises `OutcomeUnknown`. A changing or loading coordinator is waited for until the deadline, then `NoLeader` or
`CoordinatorLoading` is raised. `broker.groups` is the one object of a process. Called by every API."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from copy import copy
from typing import Final, Self

import msgspec

from raftlog.errors import InvalidArgument, NotLeader, RaftlogError, RequestError, UnknownGroup
from raftlog.partitions.coordinator.coordinators import Coordinators
from raftlog.partitions.coordinator.operation import operations_of
from raftlog.partitions.coordinator.router import ClusterParts, CoordinatorRouter, InternalTopic
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups import operations
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.environment import GroupEnvironment
from raftlog.partitions.groups.figures import GroupFigures, group_figures
from raftlog.partitions.groups.lag import GroupLagReader, describe_resets
from raftlog.partitions.groups.names import check_group
from raftlog.partitions.groups.offsets import check_offsets
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import (
    CommitOffsets,
    CommitPendingOffsets,
    EndGroupTransaction,
    GroupDetails,
    GroupHeartbeat,
    GroupListing,
    GroupMarker,
    Join,
    JoinedGeneration,
    LagReport,
    Leave,
    LeftMember,
    MemberIdentity,
    MemberIdGiven,
    OffsetCommit,
    OffsetMove,
    PartitionOffsets,
    Place,
    ResetTo,
    StableOffset,
    Sync,
    SyncedGeneration,
    TopicOffsets,
    TransactionalProducer,
)
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.reads import Reader
from raftlog.types import FEATURE_LEVEL_TRANSACTIONS, NodeId, Offset, TopicPartition
from raftlog.values.groups import OffsetReset

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_CONFIG: Final[Mapping[str, str]] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(1 << 20),
    "max.message.bytes": str(8 << 20),
}
HEARTBEATS_MAX: Final = 1_000
"""Limit of heartbeats that wait at coordinators for rebalances; more are answered after `_BEAT_AGAIN_MS`.

A broker serves a bounded number of requests of another one."""
_BEAT_AGAIN_MS: Final = 300
"""Delay of the answers above the limit, in ms; less than half of any session."""


class Groups:
    """Operations on the consumer groups of the cluster, sent to each group's coordinator."""

    def __init__(
        self, parts: ClusterParts, reader: Reader, environment: GroupEnvironment, offsets_partitions: int
    ) -> None:
        """Create the groups of this broker; `offsets_partitions` is the number of partitions of a new offsets topic."""
        self._node, self._metadata, self._topics, self._finder = parts[:4]
        self._check_ready, self._environment = parts.check_ready, environment
        self._node_id = parts.node.identity.node_id
        self.settings = environment.settings
        """Limits of requests and groups at this node."""
        self._topics_digest = b""
        self._heartbeats = 0
        """Heartbeats that wait for their answers."""
        self._lag_reader = GroupLagReader(parts.finder, reader)
        self.coordinators = Coordinators(
            parts.node, lambda replica, failed: GroupCoordinator(replica, environment, failed)
        )
        topic = InternalTopic(OFFSETS_TOPIC, offsets_partitions, OFFSETS_CONFIG, check_group, _unknown_group)
        self.router = CoordinatorRouter(parts, topic, self.coordinators)
        """Router to the coordinators, which serve consumer instances as well."""
        self.router.register(operations_of(operations))

    def state_changed(self) -> None:
        """Update the coordinators after the controller's state and `topics` changed."""
        self.coordinators.watch(self.router.partitions())
        digest = self._metadata.state.topics.digest
        if digest != self._topics_digest:
            self._topics_digest = digest
            self.coordinators.topics_changed()

    def without_forwarding(self) -> Self:
        """Return an instance for clients that find coordinators themselves: calls are never forwarded.

        Where another node coordinates, calls raise `NotLeader` at once."""
        groups = copy(self)
        groups.router = self.router.without_forwarding()
        return groups

    def close(self) -> None:
        """Stop the coordinators because the broker stops; waiting clients retry at other brokers."""
        self.coordinators.close()

    # ---- membership (Kafka's classic protocol; requests and answers are in `results`)

    async def join(self, join: Join, *, deadline: Deadline) -> JoinedGeneration | MemberIdGiven:
        """Join a group, or rejoin it; return when the join phase has ended.

        Raises `RebalanceInProgress` at the deadline: a member that sent its id is still a member, and joins again with
        it; a new one joins again without. Raises `UnknownMember`, `FencedInstance`, `InconsistentProtocol`,
        `GroupFull`, `InvalidArgument`."""
        again = bool(join.member_id or join.instance_id)
        return await self.router.call(operations.JOIN, join.group, join, deadline, is_repeatable=again, creates=True)

    async def sync(self, sync: Sync, *, deadline: Deadline) -> SyncedGeneration:
        """Return the assignment of a member, once the group leader has sent it and it is stored.

        Raises `UnknownMember`, `StaleGeneration`, `FencedInstance`, `RebalanceInProgress`; at the deadline
        `Unavailable`: sync again."""
        return await self.router.call(operations.SYNC, sync.group, sync, deadline)

    async def heartbeat(self, heartbeat: GroupHeartbeat, *, deadline: Deadline) -> None:
        """Extend the session of a member. Raises the errors of `sync`.

        With `wait_ms` it returns after that time, or at once when the group begins to rebalance."""
        is_too_much = self._heartbeats >= HEARTBEATS_MAX
        asked = heartbeat._replace(wait_ms=0) if is_too_much else heartbeat
        self._heartbeats += 1
        try:
            await self.router.call(operations.HEARTBEAT, heartbeat.group, asked, deadline)
            if is_too_much and heartbeat.wait_ms > 0:
                await self._node.pause(Deadline(min(deadline, deadline_in(_BEAT_AGAIN_MS))))
        finally:
            self._heartbeats -= 1

    async def leave(self, leave: Leave, *, deadline: Deadline) -> tuple[LeftMember, ...]:
        """Remove members from the group; return the result of each, in order."""
        return await self.router.call(operations.LEAVE, leave.group, leave, deadline)

    # ---- offsets

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        member: MemberIdentity | None = None,
        deadline: Deadline,
    ) -> dict[TopicPartition, OffsetRecord]:
        """Commit offsets durably; return all committed offsets of the group afterwards.

        With a member: in the order of its commits, backwards too, fenced by its generation. Without one: offsets only
        rise, and only while the group has no members. With a generation below 0: as given, and only while the group has
        no members. Raises `UnknownTopic`, `UnknownPartition`, `UnknownMember`, `StaleGeneration`, `FencedInstance`,
        `RebalanceInProgress`, `InvalidArgument`: nothing was committed."""
        await self.router.partition_for(group, deadline)
        by_place = await self._environment.places.find_all(offsets, deadline)
        check_offsets(by_place)
        if not by_place:
            return await self.committed(group, deadline=deadline)
        asked = CommitOffsets(group, by_place, member)
        committed = await self.router.call(operations.COMMIT, group, asked, deadline, is_repeatable=member is None)
        return self._environment.places.name_offsets(committed)

    async def commit_each(
        self, group: str, offsets: Mapping[TopicPartition, OffsetCommit], *, member: MemberIdentity, deadline: Deadline
    ) -> dict[TopicPartition, RaftlogError]:
        """Commit the offsets of existing partitions, as `commit` does; return the errors of the others.

        Raises the errors of the group as a whole: nothing was committed, unless it is `OutcomeUnknown`."""
        await self.router.partition_for(group, deadline)
        failed, found = await self._find_commits(offsets, deadline)
        if found:
            await self.router.call(operations.COMMIT, group, CommitOffsets(group, found, member), deadline)
        return failed

    async def _find_commits(
        self, offsets: Mapping[TopicPartition, OffsetCommit], deadline: Deadline
    ) -> tuple[dict[TopicPartition, RaftlogError], dict[Place, OffsetCommit]]:
        """Return the errors of partitions that do not exist and of invalid offsets, and the other commits."""
        failed: dict[TopicPartition, RaftlogError] = {}
        found: dict[Place, OffsetCommit] = {}
        for key, place in (await self._environment.places.find_each(offsets, deadline)).items():
            try:
                if isinstance(place, RequestError):
                    raise place
                check_offsets({place: offsets[key]})
            except RequestError as error:
                failed[key] = error
            else:
                found[place] = offsets[key]
        return failed, found

    async def committed(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, OffsetRecord]:
        """Return the committed offsets of a group (linearizable); none for an unknown group."""
        check_group(group)
        if not await self.router.has_topic(deadline):
            return {}
        committed = await self.router.call(operations.OFFSETS, group, group, deadline)
        return self._environment.places.name_offsets(committed)

    async def stable_offsets(
        self, group: str, topics: Iterable[str] = (), *, deadline: Deadline
    ) -> dict[TopicPartition, StableOffset]:
        """Return the committed offsets of a group, and which of them an open transaction may change (KIP-447).

        Offsets of topics that this broker does not know are left out, but it asks the controller about `topics`. Raises
        `NoLeader` if there is no answer: a consumer would take a missing offset for none."""
        check_group(group)
        await self._environment.places.update_if_unknown(topics, deadline)
        if self._metadata.state.feature_level < FEATURE_LEVEL_TRANSACTIONS:  # the coordinator may run an older release
            committed = await self.committed(group, deadline=deadline)
            return {place: StableOffset(*record, is_pending=False) for place, record in committed.items()}
        if not await self.router.has_topic(deadline):
            return {}
        found = await self.router.call(operations.STABLE, group, group, deadline)
        return self._environment.places.name_offsets(found)

    # ---- transactions

    async def commit_pending(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        producer: TransactionalProducer,
        member: MemberIdentity,
        deadline: Deadline,
        joins: bool = False,
    ) -> dict[TopicPartition, RaftlogError]:
        """Commit offsets in a transaction: they count once `end_transaction` has committed it.

        `joins`: add the group to the transaction, which begins unless it is open; otherwise it must contain the group.
        Returns the errors of partitions that do not exist. Raises the errors of `commit`, `ProducerFenced`,
        `InvalidProducerMapping`, `InvalidTransactionState` unless the group is in the open transaction, and
        `ConcurrentTransactions` while an earlier one ends."""
        await self.router.partition_for(group, deadline)
        failed, found = await self._find_commits(offsets, deadline)
        if found:
            asked = CommitPendingOffsets(group, found, producer, member, joins)
            await self.router.call(operations.COMMIT_PENDING, group, asked, deadline)
        return failed

    async def end_transaction(self, group: str, marker: GroupMarker, *, deadline: Deadline) -> None:
        """End a producer's transaction in a group: commit its pending offsets, or remove them; repeatable.

        Raises `ProducerFenced` and `CoordinatorFenced` for a marker that is older than the last one."""
        asked = EndGroupTransaction(group, marker)
        await self.router.call(operations.END_TRANSACTION, group, asked, deadline, creates=True)

    # ---- reads

    async def names(self, *, deadline: Deadline) -> list[str]:
        """Return the names of all groups, sorted."""
        return [listing.group for listing in await self.listings(deadline=deadline)]

    async def listings(self, *, deadline: Deadline) -> list[GroupListing]:
        """Return all groups with their states, sorted."""
        if not await self.router.has_topic(deadline):
            return []
        parts = await asyncio.gather(
            *(self._list_partition(partition, deadline) for partition in self.router.partitions())
        )
        return sorted(row for part in parts for row in part)

    async def local_listings(self, *, deadline: Deadline) -> list[GroupListing]:
        """Return the groups coordinated here, sorted."""
        if not await self.router.has_topic(deadline):
            return []
        rows: list[GroupListing] = []
        for partition in self.router.partitions():
            if self.router.coordinator_id(partition) == self._node_id:
                with suppress(NotLeader):  # another node coordinates these now, and lists them
                    rows += await self._list_partition(partition, deadline)
        return sorted(rows)

    async def _list_partition(self, partition: Partition, deadline: Deadline) -> list[GroupListing]:
        """Return the groups in one partition of the internal topic, with their coordinator."""
        rows = await self.router.call_at(operations.LIST, partition, "", None, deadline)
        coordinator = self.router.coordinator_id(partition)
        return [msgspec.structs.replace(row, coordinator=coordinator) for row in rows]

    async def describe(self, group: str, *, deadline: Deadline) -> GroupDetails:
        """Describe a group. Raises `UnknownGroup`."""
        found = await self.router.call(operations.DESCRIBE, group, group, deadline)
        if found is None:
            raise _unknown_group(group)
        coordinator = self.router.coordinator_id(self.router.partition_of(group))
        return msgspec.structs.replace(found, coordinator=coordinator)

    async def lag(self, group: str, *, deadline: Deadline) -> list[LagReport]:
        """Return the lag in each partition that the group committed or that a member owns, sorted.

        Raises `UnknownGroup`."""
        described = await self.describe(group, deadline=deadline)
        committed = await self.committed(group, deadline=deadline)
        return await self._lag_reader.lag(committed, described.members, deadline)

    async def local_figures(self, lags_max: int) -> GroupFigures:
        """Return the metric values of the groups coordinated here."""
        return await group_figures(self.coordinators, self._end_of, lags_max)

    def _end_of(self, place: Place) -> tuple[str, Offset | None] | None:
        """Return a topic's name, and the high watermark of the replica here, if any; None for an unknown topic."""
        topic = self._topics.by_id(place[0])
        if topic is None:
            return None
        replica = topic.partitions[place[1]].replica
        return topic.name, None if replica is None else replica.group.high_watermark

    # ---- changes by operators

    async def delete(self, group: str, *, deadline: Deadline) -> None:
        """Delete a group with its offsets. Raises `UnknownGroup` and `GroupNotEmpty`."""
        self._check_ready()  # a new or replaced disk has no topics before
        await self.router.call(operations.DELETE, group, group, deadline)

    async def delete_offsets(self, group: str, topic: str, *, deadline: Deadline) -> list[int]:
        """Delete a group's offsets in a topic; return the partitions, sorted.

        Raises `UnknownGroup`, `UnknownTopic`, and `GroupNotEmpty` while a member subscribes to the topic."""
        self._check_ready()
        topic_id = (await self._finder.topic(topic, deadline)).row.topic_id
        asked = TopicOffsets(group, topic, topic_id)
        return await self.router.call(operations.DELETE_OFFSETS, group, asked, deadline)

    async def delete_partition_offsets(
        self, group: str, topic: str, partitions: Collection[int], *, deadline: Deadline
    ) -> None:
        """Delete a group's offsets in some partitions of a topic. Raises the errors of `delete_offsets`."""
        self._check_ready()
        topic_id = (await self._finder.topic(topic, deadline)).row.topic_id
        asked = PartitionOffsets(group, topic, topic_id, tuple(partitions))
        await self.router.call(operations.DELETE_PARTITION_OFFSETS, group, asked, deadline)

    async def reset(
        self,
        group: str,
        to: ResetTo,
        *,
        topics: Collection[str] = (),
        partitions: Collection[TopicPartition] = (),
        dry_run: bool = False,
        deadline: Deadline,
    ) -> list[OffsetReset]:
        """Set committed offsets, also to lower ones, in these topics and partitions, or in all committed ones.

        Return a row for each, sorted by topic and partition. Raises `GroupNotEmpty`, `UnknownTopic`,
        `UnknownPartition`, and `InvalidArgument` when the group committed nothing and no partition is named."""
        self._check_ready()
        committed = await self.committed(group, deadline=deadline)
        before = {place: int(offset.offset) for place, offset in committed.items()}
        places = set(partitions) if topics or partitions else set(before)
        for topic in topics:
            found = await self._finder.topic(topic, deadline)
            places |= {TopicPartition(topic, number) for number in range(len(found.partitions))}
        if not places:
            raise InvalidArgument(f"group {group} has committed nothing: name the topics or partitions to reset")
        targets = await self._lag_reader.targets({place: before.get(place, -1) for place in places}, to, deadline)
        if dry_run:
            await self._check_empty(group, deadline)
            return describe_resets(before, targets)
        wanted = {place: int(after) for place, (after, _) in targets.items()}
        offsets = await self._environment.places.find_all(wanted, deadline)
        was = await self.router.call(operations.RESET, group, OffsetMove(group, offsets), deadline, creates=True)
        names = dict(zip(offsets, wanted, strict=True))
        return describe_resets({names[place]: offset for place, offset in was.items()}, targets)

    async def coordinator(self, group: str, *, deadline: Deadline) -> NodeId:
        """Return the node that coordinates a group; create the internal topic if it is missing.

        Raises `NoLeader` without a known coordinator until the deadline, and `InvalidArgument` for an invalid name."""
        return await self.router.find_coordinator(group, deadline)

    def is_coordinator_of(self, group: str) -> bool:
        """Return whether this node coordinates a group, as known here."""
        return self.leader_of(group) == self._node_id

    def leader_of(self, group: str) -> NodeId | None:
        """Return the node that coordinates a group, as known here; None if it is unknown."""
        return self.router.leader_of(group)

    async def _check_empty(self, group: str, deadline: Deadline) -> None:
        """Raise the coordinator's error unless the group is empty."""
        if await self.router.has_topic(deadline):
            await self.router.call(operations.RESET, group, OffsetMove(group, {}), deadline, is_repeatable=True)


def _unknown_group(group: str) -> UnknownGroup:
    return UnknownGroup(f"there is no group {group!r}")
