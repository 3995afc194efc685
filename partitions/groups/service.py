"""Groups of consumers, from any node: membership, committed offsets, what operators look at and change.

    a group's coordinator is the leader of partition murmur2(group) mod n of `__consumer_offsets`;   every broker takes
    every call and asks it there, by one hop

Every call has a deadline (`partitions.deadline`) and raises from `raftlog.errors`: one that may have happened all the
same raises `OutcomeUnknown`. That a coordinator changes, or still loads, is waited for until the deadline and then
`NoLeader` or `CoordinatorLoading`. `broker.groups` is the one instance of a process. Called by every face.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from raftlog.errors import InvalidArgument, UnknownGroup
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.asking import Asking, AtCoordinator, partition_of
from raftlog.partitions.groups.coordinator import Coordinator
from raftlog.partitions.groups.coordinators import CoordinatorObserver, Coordinators
from raftlog.partitions.groups.folded import Place
from raftlog.partitions.groups.lagging import GroupLagging, members_of, resets
from raftlog.partitions.groups.measuring import GroupFigures, look_at_groups
from raftlog.partitions.groups.names import check_group
from raftlog.partitions.groups.offsets import check_offsets
from raftlog.partitions.groups.requests import GroupHeartbeat, Join, Joined, Leave, MemberIdGiven, Sync, Synced
from raftlog.partitions.groups.results import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    Left,
    MemberIdentity,
    OffsetCommit,
    OffsetReset,
    PartitionLag,
    ResetTo,
)
from raftlog.partitions.groups.serving import (
    COMMIT,
    DELETE,
    DELETE_OFFSETS,
    DESCRIBE,
    HEARTBEAT,
    JOIN,
    LEAVE,
    NAMES,
    OFFSETS,
    RESET,
    SYNC,
    CoordinatorRequests,
)
from raftlog.partitions.groups.surroundings import GroupSurroundings
from raftlog.partitions.groups.wire import (
    description_of,
    errors_of,
    joined_of,
    numbers_of,
    offsets_to,
    plain,
    records_of,
    synced_of,
    value_of,
)
from raftlog.partitions.node import Node
from raftlog.partitions.routing.finding import Finder
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.reads import Reader
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topics
from raftlog.partitions.topic_changes import TopicChanges
from raftlog.runtime.rpc import Answer
from raftlog.types import Offset, TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_CONFIG: Final[Mapping[str, str]] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(1 << 20),
    "max.message.bytes": str(8 << 20),
}
HEARTBEATS_MAX: Final = 1_000
"""So many may wait at coordinators for rebalances, whose brokers serve a bounded number of requests of another one;
those of more members are answered soon."""
_BEAT_AGAIN_MS: Final = 300
"""Less than half of any session."""


class Groups:
    """One for each process."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        topics: Topics,
        finder: Finder,
        router: PartitionRouter,
        reader: Reader,
        changes: TopicChanges,
        around: GroupSurroundings,
        check_ready: Callable[[], None],
    ) -> None:
        """`check_ready` raises `Unavailable` while the broker starts or stops."""
        self._metadata, self._topics, self._finder, self._router = metadata, topics, finder, router
        self._changes, self._around, self._check_ready = changes, around, check_ready
        self._topics_digest = b""
        self._node = node
        self._heartbeats = 0
        """That wait for their answers."""
        self._lagging = GroupLagging(finder, reader)
        self.coordinators = Coordinators(node, around)
        self._asking = Asking(node, router, topics, self.coordinators)
        for name, handler in CoordinatorRequests().handlers.items():
            self._asking.serve(name, handler)

    def state_changed(self) -> None:
        """The controller's state is another one, and `topics` has followed it."""
        if OFFSETS_TOPIC in self._topics:
            self.coordinators.watch(self._topics.find(OFFSETS_TOPIC).partitions)
        digest = self._metadata.state.topics.digest
        if digest != self._topics_digest:
            self._topics_digest = digest
            self.coordinators.topics_changed()

    def close(self) -> None:
        """The broker stops: whoever waits here asks another one."""
        self.coordinators.close()

    # ---- membership (Kafka's classic protocol; `requests` has what is asked and answered)

    async def join(self, join: Join, *, deadline: Deadline) -> Joined | MemberIdGiven:
        """Become or stay a member; answered when the join phase is over.

        At the deadline `RebalanceInProgress`: a member that named its id stays one and joins again with it; a new one
        joins as before. Raises `UnknownMember`, `FencedInstance`, `InconsistentProtocol`, `GroupFull`,
        `InvalidArgument`.
        """
        is_repeatable = bool(join.member_id or join.instance_id)
        answer = await self._ask(
            JOIN, join.group, {"is": plain(join)}, deadline, is_repeatable=is_repeatable, creates=True
        )
        return joined_of(answer.value)

    async def sync(self, sync: Sync, *, deadline: Deadline) -> Synced:
        """A member's assignment, once the leader of the group has given it and it is stored. Raises `UnknownMember`,
        `StaleGeneration`, `FencedInstance`, `RebalanceInProgress`; at the deadline `Unavailable`: sync again."""
        return synced_of((await self._ask(SYNC, sync.group, {"is": plain(sync)}, deadline)).value)

    async def heartbeat(self, heartbeat: GroupHeartbeat, *, deadline: Deadline) -> None:
        """A member is alive. With `wait_ms` answered after that time, or at once when the group begins to rebalance.
        Raises as `sync` does."""
        is_too_much = self._heartbeats >= HEARTBEATS_MAX
        asked = heartbeat._replace(wait_ms=0) if is_too_much else heartbeat
        self._heartbeats += 1
        try:
            await self._ask(HEARTBEAT, heartbeat.group, {"is": plain(asked)}, deadline)
            if is_too_much and heartbeat.wait_ms > 0:
                await self._node.pause(Deadline(min(deadline, deadline_in(_BEAT_AGAIN_MS))))
        finally:
            self._heartbeats -= 1

    async def leave(self, leave: Leave, *, deadline: Deadline) -> list[Left]:
        """Take members out of the group; what became of each, in their order."""
        answer = await self._ask(LEAVE, leave.group, {"is": plain(leave)}, deadline)
        return [
            Left(member_id, instance_id, error)
            for (member_id, instance_id), error in zip(leave.members, errors_of(answer.value), strict=True)
        ]

    # ---- offsets

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        member: MemberIdentity | None = None,
        deadline: Deadline,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Commit durably; all that the group has committed then.

        Of a member: in its order, backwards too, fenced by its generation. Without one: watermarks that only rise, and
        only while the group has no members. Raises `UnknownTopic`, `UnknownPartition`, `UnknownMember`,
        `StaleGeneration`, `FencedInstance`, `RebalanceInProgress`, `InvalidArgument`: nothing was committed.
        """
        await self.partition_for(group, deadline)
        by_place = await self._around.places.find(offsets, deadline)
        check_offsets(by_place)
        if not by_place:
            return await self.committed(group, deadline=deadline)
        header = {"offsets": offsets_to(by_place), "member": None if member is None else plain(member)}
        answer = await self._ask(COMMIT, group, header, deadline, is_repeatable=member is None)
        return self._around.places.committed(records_of(value_of(answer)))

    async def committed(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """With everything that was answered before this call (linearizable); empty for a group that nobody knows."""
        check_group(group)
        if not await self._has_topic(deadline):
            return {}
        return self._around.places.committed(
            records_of(value_of(await self._ask(OFFSETS, group, {}, deadline, only_reads=True)))
        )

    # ---- looking at groups

    async def names(self, *, deadline: Deadline) -> list[str]:
        """All groups, sorted."""
        return [listing.group for listing in await self.listings(deadline=deadline)]

    async def listings(self, *, deadline: Deadline) -> list[GroupListing]:
        """The same with their states."""
        if not await self._has_topic(deadline):
            return []
        partitions = self._topics.find(OFFSETS_TOPIC).partitions
        parts = await asyncio.gather(*(self._listed(partition, deadline) for partition in partitions))
        return sorted(row for part in parts for row in part)

    async def _listed(self, partition: Partition, deadline: Deadline) -> list[GroupListing]:
        header = {"group": ""}
        rows = value_of(
            await self._asking.ask(NAMES, partition, header, deadline=deadline, is_repeatable=True, only_reads=True)
        )
        coordinator = self._coordinator_id(partition)
        return [GroupListing(*(*row, coordinator)) for row in rows]

    async def describe(self, group: str, *, deadline: Deadline) -> GroupDescription:
        """Raises `UnknownGroup`."""
        check_group(group)
        if await self._has_topic(deadline):
            described, has_offsets = value_of(await self._ask(DESCRIBE, group, {}, deadline, only_reads=True))
        else:
            described, has_offsets = None, False
        if described is None and not has_offsets:
            raise _unknown(group)
        coordinator = self._coordinator_id(self._partition(group))
        if described is None:
            return GroupDescription(group, "Empty", "", "", 0, "", (), coordinator, is_simple=True)
        found = description_of(described)
        return GroupDescription(
            group,
            found.state,
            found.protocol_type,
            found.protocol,
            found.generation,
            found.leader,
            members_of(found),
            coordinator,
            is_simple=False,
        )

    async def lag(self, group: str, *, deadline: Deadline) -> list[PartitionLag]:
        """Of every partition that the group committed in or that a member owns, sorted. Raises `UnknownGroup`."""
        described = await self.describe(group, deadline=deadline)
        committed = await self.committed(group, deadline=deadline)
        return await self._lagging.lag(committed, described.members, deadline)

    async def look(self, lags_max: int) -> GroupFigures:
        """The groups that are coordinated here, in numbers."""
        return await look_at_groups(self.coordinators, self._end_of, lags_max)

    def _end_of(self, place: Place) -> tuple[str, Offset | None] | None:
        topic = self._topics.by_id(place[0])
        if topic is None:
            return None
        replica = topic.partitions[place[1]].replica
        return topic.name, None if replica is None else replica.group.high_watermark

    # ---- what operators change

    async def delete(self, group: str, *, deadline: Deadline) -> None:
        """With its offsets. Raises `UnknownGroup` and `GroupNotEmpty`."""
        self._check_ready()  # a disk that is new or was lost knows no topics before
        await self._ask(DELETE, group, {}, deadline, is_repeatable=False)

    async def delete_offsets(self, group: str, topic: str, *, deadline: Deadline) -> list[int]:
        """Forget what is committed in a topic; the partitions, sorted. Raises `UnknownGroup`, `UnknownTopic`, and
        `GroupNotEmpty` while a member subscribes to the topic."""
        self._check_ready()
        topic_id = (await self._finder.topic(topic, deadline)).row.topic_id
        header = {"topic": topic, "topic_id": topic_id.bytes}
        return list(value_of(await self._ask(DELETE_OFFSETS, group, header, deadline)))

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
        """Move what is committed, backwards too: in these topics and partitions, or wherever something is committed.

        Sorted by topic and partition. Raises `GroupNotEmpty`, `UnknownTopic`, `UnknownPartition`, and `InvalidArgument`
        where nothing is committed and nothing is named.
        """
        self._check_ready()
        committed = await self.committed(group, deadline=deadline)
        before = {place: int(offset.offset) for place, offset in committed.items()}
        places = set(partitions) if topics or partitions else set(before)
        for topic in topics:
            found = await self._finder.topic(topic, deadline)
            places |= {TopicPartition(topic, number) for number in range(len(found.partitions))}
        if not places:
            raise InvalidArgument(f"group {group} has committed nothing: say which topics or partitions are meant")
        targets = await self._lagging.targets({place: before.get(place, -1) for place in places}, to, deadline)
        if dry_run:
            await self._check_empty(group, deadline)
            return resets(before, targets)
        wanted = {place: (int(after),) for place, (after, _) in targets.items()}
        offsets = await self._around.places.find(wanted, deadline)
        answer = await self._ask(
            RESET, group, {"offsets": offsets_to(offsets)}, deadline, is_repeatable=False, creates=True
        )
        was = numbers_of(value_of(answer))
        names = dict(zip(offsets, wanted, strict=True))
        return resets({names[place]: offset for place, offset in was.items()}, targets)

    # ---- where the coordinator is

    def leader_address(self, group: str) -> str | None:
        """Where clients reach the group's coordinator, when that is another broker."""
        if OFFSETS_TOPIC not in self._topics:
            return None
        return self._finder.address_of_leader(self._partition(group))

    async def partition_for(self, group: str, deadline: Deadline) -> Partition:
        """Whose leader coordinates the group; the internal topic is made when it is missing."""
        self._check_ready()
        check_group(group)
        await self._changes.ensure_internal(OFFSETS_TOPIC, self._around.offsets_partitions, OFFSETS_CONFIG, deadline)
        return self._partition(group)

    def coordinator_of(self, group: str) -> Coordinator:
        """Of a group that is coordinated here. Raises `NotLeader` and `CoordinatorLoading`."""
        coordinator = self.coordinators.of(self._partition(group))
        coordinator.check()
        return coordinator

    def follow(self, follower: CoordinatorObserver) -> None:
        """Tell it when coordinators begin and end in this process; before the broker starts."""
        self.coordinators.follow(follower)

    def serve(self, name: str, handler: AtCoordinator) -> None:
        """Let `ask` reach `handler` at the coordinator of a group, here or elsewhere; one for each name."""
        self._asking.serve(name, handler)

    async def ask(
        self,
        name: str,
        group: str,
        header: Mapping[str, Any],
        *,
        deadline: Deadline,
        is_repeatable: bool,
        creates: bool = False,
    ) -> Answer:
        """Have `name` served at the group's coordinator, which is found again until the deadline; the header that is
        served has the `group` besides.

        `is_repeatable`: asked again when its answer was lost; otherwise that raises `OutcomeUnknown`. `creates`: the
        internal topic is made when it is missing; otherwise that raises `UnknownGroup`.
        """
        return await self._ask(name, group, header, deadline, is_repeatable=is_repeatable, creates=creates)

    async def _ask(
        self,
        name: str,
        group: str,
        header: Mapping[str, Any],
        deadline: Deadline,
        *,
        is_repeatable: bool = True,
        only_reads: bool = False,
        creates: bool = False,
    ) -> Answer:
        check_group(group)
        self._check_ready()
        if creates:
            partition = await self.partition_for(group, deadline)
        elif await self._has_topic(deadline):
            partition = self._partition(group)
        else:
            raise _unknown(group)
        whole = {"group": group, **header}
        return await self._asking.ask(
            name, partition, whole, deadline=deadline, is_repeatable=is_repeatable, only_reads=only_reads
        )

    async def _has_topic(self, deadline: Deadline) -> bool:
        """Another node may have made it just now, for a commit that was answered."""
        self._check_ready()
        if OFFSETS_TOPIC not in self._topics:
            await self._metadata.barrier(deadline)
        return OFFSETS_TOPIC in self._topics

    def _partition(self, group: str) -> Partition:
        return partition_of(self._topics.find(OFFSETS_TOPIC), group)

    def _coordinator_id(self, partition: Partition) -> int:
        leader = self._router.leader_of(partition)
        return -1 if leader is None else int(leader)

    async def _check_empty(self, group: str, deadline: Deadline) -> None:
        """Raises what the coordinator would."""
        if await self._has_topic(deadline):
            await self._ask(RESET, group, {"offsets": []}, deadline)


def _unknown(group: str) -> UnknownGroup:
    return UnknownGroup(f"there is no group {group!r}")
