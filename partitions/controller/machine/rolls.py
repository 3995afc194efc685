"""First entry of a Raft group, determined byte for byte by its creation, so initial replicas write it independently.

It has term 0 and index 1 and counts as committed. Altered settings and later assignments never change it. Pure."""

from typing import Final
from uuid import UUID

from raftlog.partitions.controller.machine.commands import Bootstrap
from raftlog.partitions.controller.machine.naming import GroupName, controller_group_id
from raftlog.partitions.controller.machine.rows import TopicRow
from raftlog.partitions.controller.machine.schema import Replicas, Settings
from raftlog.raft import ReplicaId
from raftlog.runtime.log.control_entries import member_of
from raftlog.storage.roll import Roll, RollMember

CONTROLLER_VOTERS_MAX: Final = 5
"""Limit of voters of the controller; all other brokers are learners."""
_NO_MARK: Final = -1
"""Compaction mark of a log that was never compacted."""


def first_roll(topic: TopicRow, partition: int) -> Roll:
    """Return the roll at index 1 of a topic's partition, from the command that created the partition."""
    origin, group_id = topic.origin(partition), GroupName(topic.topic_id, partition).group_id
    return _first_roll(group_id, origin.created_ms, origin.replicas, settings=origin.configs)


def first_controller_roll(bootstrap: Bootstrap) -> Roll:
    """Return the first entry of the controller's log: seeds with the lowest node ids are voters, others learners."""
    group_id, seeds = controller_group_id(bootstrap.cluster_id), bootstrap.seeds
    voters, learners = seeds[:CONTROLLER_VOTERS_MAX], seeds[CONTROLLER_VOTERS_MAX:]
    return _first_roll(group_id, bootstrap.created_ms, voters, learners)


def _first_roll(
    group_id: UUID, created_ms: int, voters: Replicas, learners: Replicas = (), settings: Settings = ()
) -> Roll:
    """Return the roll at index 1; equal arguments give equal bytes on every node."""
    return Roll(
        group_id=group_id,
        base_index=1,
        previous_term=0,
        log_start_offset=0,
        compacted_to=_NO_MARK,
        created_ms=created_ms,
        configuration_index=1,
        voters=_members(voters),
        learners=_members(learners),
        settings=settings,
    )


def _members(replicas: tuple[ReplicaId, ...]) -> tuple[RollMember, ...]:
    """Return replicas as members of a roll, in its order."""
    return tuple(sorted(map(member_of, replicas)))
