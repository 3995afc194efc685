"""One partition's replica on this node: append, read, retention, over a Raft group.

    Replica → raftlog.runtime.replica.partition_replica.Group        batches come ready-made from the routing's queues

Nothing here knows of other nodes: whoever does not lead says so, and the routing goes elsewhere.
"""

from raftlog.partitions.replica.appending import ReplicaAppended
from raftlog.partitions.replica.describing import ReplicaDescription
from raftlog.partitions.replica.loading import Loading
from raftlog.partitions.replica.replica import Replica

__all__ = ["Loading", "Replica", "ReplicaAppended", "ReplicaDescription"]
