"""The faces of a broker: HTTP today. Each face calls `raftlog.partitions.broker` and nothing below it."""

assert __name__.startswith("raftlog."), "import this room as raftlog.api"
