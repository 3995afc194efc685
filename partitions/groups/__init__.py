"""Consumer groups: the group machine on coordinators (`partitions.coordinator`) of `__consumer_offsets`.

Entry points: the broker, consumer instances, and the values in `results`."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.groups"
