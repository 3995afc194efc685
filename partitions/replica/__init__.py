"""Replica of one partition on this node: append, read and retention over a Raft group.

    Replica → raftlog.runtime.replica.partition_replica.Group        batches come ready-made from the routing's queues

Nothing here depends on other nodes: a replica that does not lead raises `NotLeader`, and the routing goes elsewhere."""

from raftlog.partitions.replica.appending import ReplicaAppended
from raftlog.partitions.replica.describing import ReplicaDescription
from raftlog.partitions.replica.loading import Loading
from raftlog.partitions.replica.replica import Replica

__all__ = ["Loading", "Replica", "ReplicaAppended", "ReplicaDescription"]
