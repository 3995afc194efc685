"""Replicas of this node, by the controller's assignments: created, connected to the broker's partitions, removed."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement.assignments"
