"""The groups of this node follow what the controller assigned: made, filled with a replica for the façade, removed."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement.assignments"
