"""Replica of one partition on this node: append, read and retention over a Raft group.

    Replica → raftlog.runtime.replica.partition_replica.PartitionReplica    batches are complete when they arrive

Nothing here depends on other nodes: a replica that does not lead raises `NotLeader`, and the routing asks another."""

from raftlog.partitions.replica.description import ReplicaDescription
from raftlog.partitions.replica.leader_transactions import AppendPermission
from raftlog.partitions.replica.pending_appends import ReplicaAppended
from raftlog.partitions.replica.read_queue import ReadQueue
from raftlog.partitions.replica.replica import Replica

__all__ = ["AppendPermission", "ReadQueue", "Replica", "ReplicaAppended", "ReplicaDescription"]
