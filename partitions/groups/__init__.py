"""Groups of consumers: so far the offsets that they committed."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.groups"
