"""Coordinators of a process: one for each partition of an internal topic that it leads, for each term.

    the replica leads, in a term      ⇒  a coordinator loads;      it leads no more, or in another term  ⇒  it is ended

Leadership is checked after every Ready of the replicas: a coordinator ends in the turn after its leadership, and until
then its writer refuses entries.
Called by the router and by maintenance."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from raftlog.errors import NotLeader
from raftlog.partitions.coordinator.coordinator import PartitionCoordinator
from raftlog.partitions.node import Node
from raftlog.partitions.replica import Replica
from raftlog.partitions.routing.partition import Partition
from raftlog.raft import Ready, ReplicaId
from raftlog.runtime.replica.partition_replica import PartitionReplica

C = TypeVar("C", bound=PartitionCoordinator[Any])
S = TypeVar("S", bound=PartitionCoordinator[Any], contravariant=True)


class CoordinatorObserver(Protocol[S]):
    """Observer of coordinators, for example consumer instances."""

    def coordinator_began(self, coordinator: S) -> None:
        """Begin the work that belongs to a coordinator, which serves now.

        `coordinator.folded` has the state of its log."""

    def coordinator_ended(self, coordinator: S) -> None:
        """Drop everything that belongs to a coordinator, because another broker serves now."""


class Coordinators(Generic[C]):
    """Coordinators of the partitions led here.

    `make` returns a coordinator of a replica; its second argument is the function to call when the coordinator
    has to be loaded anew."""

    def __init__(self, node: Node, make: Callable[[Replica, Callable[[C], None]], C]) -> None:
        """Begin without coordinators.

        `make` creates that of a replica, with a function that it calls when a new one must begin."""
        self._node, self._make = node, make
        self._followers: list[CoordinatorObserver[C]] = []
        self._watched: dict[Partition, None] = {}
        self._active: dict[Partition, C] = {}
        self._tasks: dict[C, asyncio.Task[None]] = {}
        self._is_closed = False

    def __iter__(self) -> Iterator[C]:
        """Iterate over the coordinators that serve."""
        return (coordinator for coordinator in list(self._active.values()) if coordinator.is_loaded)

    def follow(self, follower: CoordinatorObserver[C]) -> None:
        """Call the observer when coordinators begin and end."""
        self._followers.append(follower)

    def watch(self, partitions: list[Partition]) -> None:
        """Run coordinators for these partitions of the internal topic while they are led here; idempotent."""
        for partition in partitions:
            if partition not in self._watched:
                self._watched[partition] = None
                self._node.watch(partition.group_id, partial(self._on_step, partition))
            self.follow_leadership(partition)

    def topics_changed(self) -> None:
        """Report a change of topics or of their partitions to all serving coordinators."""
        for coordinator in self:
            coordinator.topics_changed()

    def find(self, partition: Partition) -> C:
        """Return the coordinator of a partition, which may still be loading.

        Raises `NotLeader` when another broker is the coordinator."""
        coordinator = self._active.get(partition)
        if coordinator is not None and coordinator.replica is partition.replica and coordinator.leads():
            return coordinator
        self.follow_leadership(partition)
        coordinator = self._active.get(partition)
        if coordinator is None:
            replica = partition.replica
            leader = None if replica is None else replica.group.core.leader
            raise NotLeader(f"{partition.name}: another broker is its coordinator", leader)
        return coordinator

    def _on_step(self, partition: Partition, group: PartitionReplica, ready: Ready) -> None:
        """Schedule `follow_leadership` if a step of the replica may have changed its leadership."""
        known = self._active.get(partition)
        if ready.role_state is not None or (known is not None and not known.leads()):
            self._node.loop.call_soon(self.follow_leadership, partition)

    def follow_leadership(self, partition: Partition) -> None:
        """Begin or end the coordinator of a partition if its leadership changed."""
        replica, known = partition.replica, self._active.get(partition)
        if known is not None and (known.replica is not replica or not known.leads()):
            self._end(partition, replica.group.core.leader if replica is not None else None)
            known = None
        if known is None and replica is not None and not self._is_closed:
            coordinator = self._make(replica, partial(self._replace, partition))
            if coordinator.leads():
                self._active[partition] = coordinator
                task = self._node.run_essential_task(self._load(coordinator), f"loading {partition.name}")
                self._tasks[coordinator] = task
                task.add_done_callback(lambda _: self._tasks.pop(coordinator, None))

    async def _load(self, coordinator: C) -> None:
        """Load the log of a coordinator, and report it to the observers once it serves."""
        if await coordinator.load():
            for follower in self._followers:
                follower.coordinator_began(coordinator)

    def _replace(self, partition: Partition, coordinator: C) -> None:
        """Replace a failed coordinator by a new one, which reads the log from its beginning."""
        if self._active.get(partition) is coordinator:
            self._end(partition, None)
            self.follow_leadership(partition)

    def _end(self, partition: Partition, leader: ReplicaId | None) -> None:
        """End a coordinator, and report it to the observers if it served."""
        coordinator = self._active.pop(partition)
        coordinator.end(leader)
        if coordinator.is_loaded:
            for follower in self._followers:
                follower.coordinator_ended(coordinator)

    def close(self) -> None:
        """End all coordinators because the broker stops; waiting requests go to other brokers."""
        self._is_closed = True
        for partition in list(self._active):
            self._end(partition, None)
        for task in list(self._tasks.values()):
            task.cancel()
