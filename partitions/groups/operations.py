"""Operations of a group's coordinator: a declaration for each one, and reads of whole coordinators.

docs/REPLICATION.md names them. Called through `coordinator.router`, here or for another broker."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from raftlog.assignors import decode_assignment
from raftlog.errors import InvalidArgument
from raftlog.partitions.coordinator.operation import CoordinatorOperation
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.consumer_group import ConsumerGroup
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import (
    CommitOffsets,
    CommitPendingOffsets,
    EndGroupTransaction,
    GroupDetails,
    GroupHeartbeat,
    GroupListing,
    Join,
    JoinedGeneration,
    Leave,
    LeftMember,
    MemberDescription,
    MemberIdGiven,
    OffsetMove,
    PartitionOffsets,
    Place,
    StableOffset,
    Sync,
    SyncedGeneration,
    TopicOffsets,
)
from raftlog.partitions.groups.states import ConsumerGroupState

_SLICE: Final = 64
"""Groups examined in one turn of the loop."""
_NOT_KNOWN: Final = -1


async def _describe(coordinator: GroupCoordinator, group: str, deadline: Deadline) -> GroupDetails | None:
    """Return the details of a group; None if it has neither members nor offsets."""
    await coordinator.wait_until_current(deadline)
    found = coordinator.machine.group(group)
    if found is None:
        if group not in coordinator.folded.offsets:
            return None
        return GroupDetails(group, "Empty", "", "", 0, "", (), _NOT_KNOWN, is_simple=True)
    return describe_group(found)


def describe_group(group: ConsumerGroup) -> GroupDetails:
    """Describe a group that has or had members; the requesting broker adds the coordinator's node id."""
    is_stable = group.state is ConsumerGroupState.STABLE
    members = [
        MemberDescription(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _assigned_partitions(each.assignment) if is_stable else {},
            each.metadata(group.protocol) if is_stable else b"",
            each.assignment if is_stable else b"",
        )
        for each in group.members.values()
    ]
    state, kind, generation = group.state.value, group.protocol_type, group.generation
    return GroupDetails(
        group.name, state, kind, group.protocol, generation, group.leader, members, _NOT_KNOWN, is_simple=False
    )


def _assigned_partitions(assignment: bytes) -> Mapping[str, Sequence[int]]:
    """Return the partitions in a member's assignment, by topic; none if it cannot be decoded."""
    found: dict[str, list[int]] = {}
    try:
        partitions = decode_assignment(assignment).partitions
    except InvalidArgument:
        return {}  # of another protocol than the consumer protocol
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


async def _list(coordinator: GroupCoordinator, _: None, deadline: Deadline) -> list[GroupListing]:
    """Return all groups of the coordinator; yield to the event loop between slices."""
    await coordinator.wait_until_current(deadline)
    rows = []
    for number, name in enumerate(coordinator.group_names(), 1):
        group = coordinator.machine.group(name)
        if group is None:
            rows.append(GroupListing(name, "Empty", "", "", 0, 0, _NOT_KNOWN))
        else:
            kind, state, members = group.protocol_type, group.state.value, len(group.members)
            rows.append(GroupListing(name, state, kind, group.protocol, group.generation, members, _NOT_KNOWN))
        if number % _SLICE == 0:
            await asyncio.sleep(0)
    return rows


async def _commit(
    coordinator: GroupCoordinator, request: CommitOffsets, deadline: Deadline
) -> dict[Place, OffsetRecord]:
    """Commit offsets of a group."""
    return await coordinator.offsets.commit(*request, deadline)


async def _committed(coordinator: GroupCoordinator, group: str, deadline: Deadline) -> dict[Place, OffsetRecord]:
    """Return the committed offsets of a group."""
    return await coordinator.offsets.committed(group, deadline)


async def _stable(coordinator: GroupCoordinator, group: str, deadline: Deadline) -> dict[Place, StableOffset]:
    """Return the committed offsets of a group, and whether a transaction has pending ones."""
    return await coordinator.offsets.stable(group, deadline)


async def _commit_pending(coordinator: GroupCoordinator, request: CommitPendingOffsets, deadline: Deadline) -> None:
    """Store offsets that become committed with a transaction."""
    await coordinator.transactions.commit(*request, deadline)


async def _end_transaction(coordinator: GroupCoordinator, request: EndGroupTransaction, deadline: Deadline) -> None:
    """Commit or discard the pending offsets of a transaction."""
    await coordinator.transactions.end(*request, deadline)


async def _delete(coordinator: GroupCoordinator, group: str, deadline: Deadline) -> None:
    """Delete a group with its offsets."""
    await coordinator.offsets.delete_group(group, deadline)


async def _delete_offsets(coordinator: GroupCoordinator, request: TopicOffsets, deadline: Deadline) -> list[int]:
    """Delete a group's offsets of a topic; return the partitions that had one."""
    return await coordinator.offsets.delete_topic_offsets(*request, deadline)


async def _delete_partition_offsets(
    coordinator: GroupCoordinator, request: PartitionOffsets, deadline: Deadline
) -> None:
    """Delete a group's offsets of some partitions of a topic."""
    group, topic, topic_id, partitions = request
    await coordinator.offsets.delete_topic_offsets(group, topic, topic_id, deadline, partitions)


async def _reset(coordinator: GroupCoordinator, request: OffsetMove, deadline: Deadline) -> dict[Place, int]:
    """Set the offsets of a group without members; return the new offsets."""
    return await coordinator.offsets.reset(*request, deadline)


_G = GroupCoordinator
_OFFSETS: Final = dict[Place, OffsetRecord]
JOIN: Final = CoordinatorOperation("groups.join", _G.join, Join, JoinedGeneration | MemberIdGiven)
SYNC: Final = CoordinatorOperation("groups.sync", _G.sync, Sync, SyncedGeneration)
HEARTBEAT: Final = CoordinatorOperation("groups.heartbeat", _G.heartbeat, GroupHeartbeat)
LEAVE: Final = CoordinatorOperation("groups.leave", _G.leave, Leave, tuple[LeftMember, ...])
COMMIT: Final = CoordinatorOperation("groups.commit", _commit, CommitOffsets, _OFFSETS, is_repeatable=False)
OFFSETS: Final = CoordinatorOperation("groups.offsets", _committed, str, _OFFSETS, only_reads=True)
STABLE: Final = CoordinatorOperation("groups.stable", _stable, str, dict[Place, StableOffset], only_reads=True)
COMMIT_PENDING: Final = CoordinatorOperation("groups.commit_pending", _commit_pending, CommitPendingOffsets)
END_TRANSACTION: Final = CoordinatorOperation("groups.end_transaction", _end_transaction, EndGroupTransaction)
DESCRIBE: Final = CoordinatorOperation("groups.describe", _describe, str, GroupDetails | None, only_reads=True)
LIST: Final = CoordinatorOperation("groups.list", _list, type(None), list[GroupListing], only_reads=True)
DELETE: Final = CoordinatorOperation("groups.delete", _delete, str, is_repeatable=False)
DELETE_OFFSETS: Final = CoordinatorOperation("groups.delete_offsets", _delete_offsets, TopicOffsets, list[int])
DELETE_PARTITION_OFFSETS: Final = CoordinatorOperation(
    "groups.delete_partition_offsets", _delete_partition_offsets, PartitionOffsets
)
RESET: Final = CoordinatorOperation("groups.reset", _reset, OffsetMove, dict[Place, int], is_repeatable=False)
