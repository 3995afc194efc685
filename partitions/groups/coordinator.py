"""The coordinator of one partition of `__consumer_offsets` that is led here.

    loaded   the log of an entry of this leader's own term and all before it is folded
    ended    the replica lost its leadership or its term: whoever waits is told `NotLeader`, and everything is dropped

A commit is checked and appended in the same turn of the loop by the replica of this leader, so a newer generation never
lies before it. Made and ended by `coordinators`; called by the service, and in this process by consumer instances.
"""

from collections.abc import Mapping
from typing import Any

from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import CommittedOffset, MemberIdentity, OffsetCommit
from raftlog.types import TopicPartition

InstanceKey = tuple[str, str]
"""Group, and name of a consumer instance."""


class Coordinator:
    """See the module. The calls are those of the service, for groups of this coordinator only."""

    instances: Mapping[InstanceKey, Mapping[str, Any]]
    """Consumer instances as they were stored, committed ones only."""

    async def store_instance(
        self, group: str, name: str, record: Mapping[str, Any] | None, *, deadline: Deadline
    ) -> None:
        """Keep an instance's record (opaque, at most 64 KiB packed) in the group's log, or forget it with `None`;
        committed when this returns. Raises `NotLeader`, `Overloaded`, `OutcomeUnknown`."""
        raise NotImplementedError

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        member: MemberIdentity | None,
        deadline: Deadline,
    ) -> dict[TopicPartition, CommittedOffset]:
        """See `Groups.commit`; topics are looked up here."""
        raise NotImplementedError

    async def committed(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """See `Groups.committed`."""
        raise NotImplementedError

    # join, sync, heartbeat, leave: as in `Groups`
