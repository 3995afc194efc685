"""The first entry of a group, byte for byte what its creation says, so that every initial replica writes it alone.

It has term 0 and index 1 and counts as committed. Altered settings and later assignments never change it. Pure.
"""

from typing import Final

from raftlog.partitions.controller.machine.commands import Bootstrap, CreateTopic
from raftlog.partitions.controller.machine.naming import GroupName, controller_group_id
from raftlog.raft import ReplicaId
from raftlog.runtime.log.control_entries import member_of
from raftlog.storage.roll import Roll, RollMember

CONTROLLER_VOTERS_MAX: Final = 5
"""Voters of group 0; everybody else learns."""
_NOWHERE: Final = -1


def first_roll(creation: CreateTopic, partition: int) -> Roll:
    """The roll at index 1 of a topic's partition, as its `CreateTopic` says (`Topic.creation` in the state)."""
    assert 0 <= partition < len(creation.partitions), f"{creation.name} has no partition {partition}"
    return Roll(
        group_id=GroupName(creation.topic_id, partition).group_id,
        base_index=1,
        previous_term=0,
        log_start_offset=0,
        compacted_to=_NOWHERE,
        created_ms=creation.created_ms,
        configuration_index=1,
        voters=_members(creation.partitions[partition]),
        settings=creation.configs,
    )


def first_controller_roll(bootstrap: Bootstrap) -> Roll:
    """The roll at index 1 of group 0: the seeds with the lowest node ids vote, others learn."""
    return Roll(
        group_id=controller_group_id(bootstrap.cluster_id),
        base_index=1,
        previous_term=0,
        log_start_offset=0,
        compacted_to=_NOWHERE,
        created_ms=bootstrap.created_ms,
        configuration_index=1,
        voters=_members(bootstrap.seeds[:CONTROLLER_VOTERS_MAX]),
        learners=_members(bootstrap.seeds[CONTROLLER_VOTERS_MAX:]),
    )


def _members(replicas: tuple[ReplicaId, ...]) -> tuple[RollMember, ...]:
    """In the order in which a roll has them."""
    return tuple(sorted(map(member_of, replicas)))
