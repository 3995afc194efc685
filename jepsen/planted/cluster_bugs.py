"""Bugs of whole brokers: in routing, in topics and their Raft groups, and in the founding of a cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from jepsen.planted.patch import replace_method
from raftlog.partitions.controller.first_start import FirstStart, StartView
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.placement.assignments.assignments import Assignments
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.results import ALL, Acks
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.raft import Role
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.log import startup as opening
from raftlog.runtime.log.startup import OpenedGroup
from raftlog.runtime.process import driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.disk import Disk
from raftlog.types import NodeId, Offset


def route_to_deposed_leader() -> None:
    """Plant a bug: reads go to the partition's first leader, which answers even when it no longer leads."""
    call = PartitionRouter.call
    first: dict[tuple[int, UUID], NodeId] = {}

    async def call_first_leader(
        self: PartitionRouter,
        partition: Partition,
        deadline: Deadline,
        here: Callable[[Replica], Awaitable[Any]],
        there: Callable[[NodeId], Awaitable[Any]],
    ) -> Any:
        """Call `here` or `there` for the partition's first known leader; if it is unreachable, route as usual."""
        leader, replica = self.leader_of(partition), partition.replica
        asked = leader if leader is None else first.setdefault((id(self), partition.group_id), leader)
        if asked == self.me and replica is not None:
            return await here(replica)
        if asked is None or asked == self.me or not self._node.is_connected(asked):
            return await call(self, partition, deadline, here, there)
        return await there(asked)

    def readable_end(self: Replica, offset: int | None = None) -> Offset:
        """Return the high watermark, without checking that this replica still leads."""
        return self.group.high_watermark

    async def confirm_without_quorum(self: Replica, deadline: Deadline) -> None:
        """Confirm the leadership without asking other replicas."""
        return

    replace_method(PartitionRouter, "call", call_first_leader)
    replace_method(Replica, "readable_end", readable_end)
    replace_method(Replica, "_wait_for_own_term", confirm_without_quorum)
    replace_method(Replica, "_confirm", confirm_without_quorum)


def bootstrap_group_again() -> None:
    """Plant a bug: a starting broker creates the Raft groups of topics anew, over their existing data."""
    open_groups = opening.open_groups

    def open_controller(disk: Disk, data_dir: str, fold: Fold, config: DriverConfig) -> Sequence[OpenedGroup]:
        """Open all groups, and return only those below `.raftlog`, such as the controller."""
        opened = open_groups(disk, data_dir, fold, config)
        return [group for group in opened if group.path.startswith(f"{data_dir}/.raftlog/")]

    replace_method(driver, "open_groups", open_controller)


def answer_before_commit() -> None:
    """Plant a bug: a new leader answers once it has written the records, before they are committed."""
    append = Replica.append

    def answer_early(self: Replica, batches: Sequence[bytearray], acks: Acks) -> "asyncio.Future[ReplicaAppended]":
        """Append, and let a new leader answer as if `acks` were 1."""
        core = self.group.core
        is_new = core.role is Role.LEADER and not core.has_own_term_commit
        return append(self, batches, 1 if acks == ALL and is_new else acks)

    replace_method(Replica, "append", answer_early)


def resurrect_deleted_topic() -> None:
    """Plant a bug: a recreated topic uses the data of the deleted topic of the same name."""
    attach, is_deleted = Assignments._attach, Assignments._is_deleted

    def attach_by_name(self: Assignments) -> None:
        """Attach partitions without a replica to old Raft groups in the directories of their names, then the others."""
        paths = {group.path: group for group in self._node.driver.groups.values()}
        for topic in self._topics:
            for partition in topic.partitions:
                old = paths.get(self._path(topic, partition.number))
                if old is not None and old.key != partition.group_id.bytes and partition.replica is None:
                    replica = Replica(partition.name, old, topic.config, self._counters)
                    self.replicas[old.key] = partition.replica = replica
        attach(self)

    def is_deleted_and_unnamed(self: Assignments, group: PartitionReplica) -> bool:
        """Return whether the group is deleted and its directory has the name of no present partition."""
        taken = {self._path(topic, each.number) for topic in self._topics for each in topic.partitions}
        return group.path not in taken and is_deleted(self, group)

    replace_method(Assignments, "_attach", attach_by_name)
    replace_method(Assignments, "_is_deleted", is_deleted_and_unnamed)


def found_without_all_seeds() -> None:
    """Plant a bug: a new cluster is created by the reachable seeds, without waiting for the others."""
    can_create_record = FirstStart._can_create_record

    def can_create_record_now(self: FirstStart, views: dict[str, StartView | None]) -> bool:
        """Decide by the views of the reachable seeds only."""
        return can_create_record(self, {address: view for address, view in views.items() if view is not None})

    replace_method(FirstStart, "_can_create_record", can_create_record_now)
