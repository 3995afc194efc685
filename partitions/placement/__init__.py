"""Placement of replicas and leaders, and the moves towards it.

`assignments` creates and removes the replicas of this node, `moves` changes Raft configurations, `balancing` decides
the placement, `recovery` revives a partition that lost its majority."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement"
