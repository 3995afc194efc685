"""Partitions that are not as they should be, by kind of problem; gathered by `cluster_view` for the health."""

from collections.abc import Callable
from dataclasses import dataclass, field

from raftlog.partitions.results import PartitionState, ReplicaLag
from raftlog.partitions.routing.partition import Partition


@dataclass(slots=True)
class UnhealthyPartitions:
    """Names of partitions by kind of problem, in the order of the topics; a partition may have several problems."""

    electing: list[str] = field(default_factory=list)
    """Partitions without a leader, `leaderless` ones included."""
    leaderless: list[str] = field(default_factory=list)
    """Partitions without a leader for longer than an election takes."""
    under_replicated: list[str] = field(default_factory=list)
    """Partitions whose leaders have fewer replicas in sync than are assigned."""
    lagging: list[str] = field(default_factory=list)
    """Partitions with a replica that lacks committed entries at this moment."""
    problems: list[str] = field(default_factory=list)
    """Problems of replicas in words, each with its partition."""
    behind: list[ReplicaLag] = field(default_factory=list)
    """Replicas of the under-replicated partitions that catch up."""

    def add(self, partition: Partition, described: PartitionState, is_leaderless: Callable[[], bool]) -> None:
        """Add a partition to the lists of its problems; `is_leaderless` is called if it has no leader."""
        if described.leader is None:
            self.electing.append(partition.name)
            if is_leaderless():
                self.leaderless.append(partition.name)
        elif len(described.in_sync) < len(partition.assigned):
            self.under_replicated.append(partition.name)
            self.behind += described.behind
        if len(described.caught_up) < len(partition.assigned):
            self.lagging.append(partition.name)
        if described.problem is not None:
            self.problems.append(f"{partition.name}: {described.problem}")
