"""Committed offsets of a coordinator's groups: commit, read, reset, delete.

    a member's commit      fenced by its generation, applied in its order, backwards too
    with generation −1     as it is, backwards too, for groups without members: Kafka's commit without a member
    without a member       a watermark that only rises, for groups without members

A commit replaces offsets of open transactions for its partitions: the later one in the log counts. All commits are
checked against the appends that are still pending, and appended in the same turn, so the log has them in the order of
the decisions. Owned by a coordinator; called by its operations."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

from raftlog.assignors import decode_subscription
from raftlog.errors import GroupFull, GroupNotEmpty, InvalidArgument, RaftlogError, UnknownGroup, UnknownTopic
from raftlog.partitions.coordinator.coordinator import PartitionCoordinator
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.environment import GroupEnvironment
from raftlog.partitions.groups.folded import FoldedGroups, GroupEntry
from raftlog.partitions.groups.machine import Machine
from raftlog.partitions.groups.records import METADATA_BYTES_MAX, OffsetKey, OffsetRecord
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit, Place, StableOffset
from raftlog.types import Offset, TopicPartition

OFFSETS_MAX: Final = 10_000
"""Limit of offsets in one commit or reset."""
_SIMPLE: Final = MemberIdentity("", -1)
"""Identity in a commit without a member."""
_NONE: Final = OffsetRecord(Offset(-1), -1, "", 0)
"""Record of a partition without a committed offset."""


class OffsetsPort(PartitionCoordinator[FoldedGroups]):
    """Part of the coordinator that offsets and their expiry use."""

    machine: Machine

    @abstractmethod
    def commit_error(
        self, group: str, member: MemberIdentity, *, is_transactional: bool = False
    ) -> RaftlogError | None:
        """Return the error that refuses the member's commit; None if it may commit now."""

    @abstractmethod
    async def delete(self, group: str, deadline: Deadline) -> None:
        """Delete a group that has or had members."""


class Offsets:
    """Committed offsets of the groups of one coordinator."""

    def __init__(self, coordinator: OffsetsPort, environment: GroupEnvironment) -> None:
        self._coordinator, self._environment = coordinator, environment
        self._folded = coordinator.folded

    # committing

    async def commit(
        self,
        group: str,
        offsets: Mapping[Place, OffsetCommit],
        member: MemberIdentity | None,
        deadline: Deadline,
    ) -> dict[Place, OffsetRecord]:
        """Commit offsets; return all committed offsets of the group afterwards.

        Raises the errors of `Groups.commit`.
        """
        check_offsets(offsets)
        await self._coordinator.wait_until_ready(deadline)
        self.check_topics(offsets)
        self.check_room(group)
        refusal = self._coordinator.commit_error(group, member or _SIMPLE)
        if refusal is not None:
            await self._coordinator.confirm(deadline)
            raise refusal
        entries = list(self._changed_offsets(group, offsets, only_rises=member is None))
        if not entries:
            # Higher ones may be pending: until those are committed, the outcome of this one is open.
            if not await self._coordinator.wait_for_pending(deadline):
                await self._coordinator.wait_until_current(deadline)
            return self.applied_offsets(group)
        replaced = self._replaced_offsets(group, {key[1:] for key, _ in entries})
        await self._coordinator.commit_entries([*(GroupEntry(*each) for each in entries), *replaced], deadline)
        self._environment.counters.group_commits += len(entries)
        found = self.applied_offsets(group)
        for key, record in entries:
            # A coordinator that has ended meanwhile does not apply its last appends.
            if self._coordinator.is_over or key[1:] not in found:
                found[key.topic_id, key.partition] = record
        return found

    def check_topics(self, offsets: Iterable[Place]) -> None:
        """Raise `UnknownTopic` if one of the topics was deleted."""
        for topic_id in {topic_id for topic_id, _ in offsets}:
            if self._environment.is_deleted(topic_id):
                raise UnknownTopic(f"the topic with the uuid {topic_id} was deleted; nothing was committed")

    def check_room(self, group: str) -> None:
        """Raise `GroupFull` if the number of groups with offsets is at its limit, and this group has none."""
        most = self._environment.settings.max_groups
        if group not in self._folded.offsets and len(self._folded.offsets) >= most:
            raise GroupFull(f"{self._coordinator.replica.name} has {most} groups, its limit; delete unused groups")

    def _changed_offsets(
        self, group: str, offsets: Mapping[Place, OffsetCommit], *, only_rises: bool
    ) -> Iterator[tuple[OffsetKey, OffsetRecord]]:
        """Yield the records to append; with `only_rises`, without offsets that are not above the committed ones."""
        now_ms = self._environment.wall_ms()
        for place, (offset, metadata, leader_epoch) in offsets.items():
            key = OffsetKey(group, *place)
            known = self._folded.latest_offset(key)
            if not only_rises or known is None or known.offset < offset:
                yield key, OffsetRecord(offset, leader_epoch, metadata, now_ms)

    def _replaced_offsets(self, group: str, places: Collection[Place]) -> list[GroupEntry]:
        """Return tombstones of the offsets of open transactions that a commit of these places replaces."""
        pending = self._folded.latest_pending(group)
        return [GroupEntry(key, None) for key in pending if (key.topic_id, key.partition) in places]

    # reading

    def applied_offsets(self, group: str) -> dict[Place, OffsetRecord]:
        """Return the group's committed offsets as applied here; newer commits may be missing."""
        return dict(self._folded.offsets.get(group, {}))

    async def committed(self, group: str, deadline: Deadline) -> dict[Place, OffsetRecord]:
        """Return the committed offsets of a group, including every commit answered before this call."""
        await self._coordinator.wait_until_current(deadline)
        return self.applied_offsets(group)

    async def stable(self, group: str, deadline: Deadline) -> dict[Place, StableOffset]:
        """Return committed offsets as `committed` does, and the partitions with offsets of open transactions."""
        await self._coordinator.wait_until_current(deadline)
        pending = {(key.topic_id, key.partition) for key in self._folded.pending_offsets(group)}
        committed = self._folded.offsets.get(group, {})
        places = sorted(committed.keys() | pending)
        return {place: StableOffset(*committed.get(place, _NONE), place in pending) for place in places}

    # changes by operators

    async def reset(self, group: str, offsets: Mapping[Place, int], deadline: Deadline) -> dict[Place, int]:
        """Set committed offsets, also to lower ones; return the earlier ones. Raises `GroupNotEmpty`."""
        moved = {place: OffsetCommit(offset) for place, offset in offsets.items()}  # type: ignore[arg-type]
        check_offsets(moved)
        await self._coordinator.wait_until_current(deadline)
        self._check_empty(group)
        self.check_topics(moved)
        before = {}
        for place in moved:
            known = self._folded.latest_offset(OffsetKey(group, *place))
            if known is not None:
                before[place] = int(known.offset)
        entries: list[GroupEntry] = [
            GroupEntry(*each) for each in self._changed_offsets(group, moved, only_rises=False)
        ]
        entries += self._replaced_offsets(group, moved.keys())
        await self._coordinator.commit_entries(entries, deadline)
        return before

    def _check_empty(self, group: str) -> None:
        """Raise `GroupNotEmpty` if the group has members."""
        if self._coordinator.machine.has_members(group):
            raise GroupNotEmpty(f"group {group} has members: stop them first, or wait until their sessions are over")

    async def delete_group(self, group: str, deadline: Deadline) -> None:
        """Delete a group with all its offsets. Raises `UnknownGroup` and `GroupNotEmpty`."""
        await self._coordinator.wait_until_current(deadline)
        self._check_empty(group)
        if self._coordinator.machine.group(group) is not None:
            await self._coordinator.delete(group, deadline)
            return
        entries: list[GroupEntry] = [GroupEntry(key, None) for key in self._folded.latest_offsets(group)]
        if not entries:
            raise UnknownGroup(f"there is no group {group!r}")
        await self._coordinator.commit_entries(entries, deadline)

    async def delete_topic_offsets(
        self, group: str, topic: str, topic_id: UUID, deadline: Deadline, partitions: Collection[int] | None = None
    ) -> list[int]:
        """Delete a group's offsets in a topic, or in these partitions of it; return the partitions.

        Raises `UnknownGroup`, and `GroupNotEmpty` while a member subscribes to it."""
        await self._coordinator.wait_until_current(deadline)
        self._check_not_subscribed(group, topic)
        found = self._folded.latest_offsets(group)
        if not found and self._coordinator.machine.group(group) is None:
            raise UnknownGroup(f"there is no group {group!r}")
        keys = [
            key for key in found if key.topic_id == topic_id and (partitions is None or key.partition in partitions)
        ]
        await self._coordinator.commit_entries([GroupEntry(key, None) for key in keys], deadline)
        return [key.partition for key in keys]

    def _check_not_subscribed(self, group: str, topic: str) -> None:
        """Raise `GroupNotEmpty` if a member subscribes to the topic, or if its subscription cannot be decoded."""
        found = self._coordinator.machine.group(group)
        if found is None:
            return
        for member in found.members.values():
            try:
                is_wanted = topic in decode_subscription(member.metadata(found.protocol)).topics
            except InvalidArgument:
                is_wanted = True  # another protocol: its topics are unknown
            if is_wanted:
                raise GroupNotEmpty(f"member {member.member_id} of group {group} subscribes to topic {topic}")


def check_offsets(offsets: Mapping[Place, OffsetCommit] | Mapping[TopicPartition, OffsetCommit]) -> None:
    """Raise `InvalidArgument` for too many offsets, or an invalid offset, leader epoch or metadata."""
    if len(offsets) > OFFSETS_MAX:
        raise InvalidArgument(f"{len(offsets)} offsets in one call are too many; {OFFSETS_MAX} are possible")
    for (_, partition), (offset, metadata, epoch) in offsets.items():
        if not 0 <= offset < 1 << 63:
            raise InvalidArgument(
                f"offset {offset} of partition {partition} cannot be committed: offsets are 0 to 2^63 - 1"
            )
        if not -1 <= epoch < 1 << 31:
            raise InvalidArgument(
                f"leader epoch {epoch} of partition {partition} is invalid; use −1 for an unknown one"
            )
        if not _is_metadata(metadata):
            raise InvalidArgument(f"the metadata of an offset has at most {METADATA_BYTES_MAX} bytes of UTF-8")


def _is_metadata(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8, and has at most `METADATA_BYTES_MAX` bytes."""
    try:
        return len(text.encode()) <= METADATA_BYTES_MAX
    except UnicodeEncodeError:
        return False
