"""Interfaces of the project: HTTP for brokers, and Maelstrom's protocol.

`http` calls `raftlog.partitions.broker` and nothing below it; `maelstrom` has no broker and calls the driver
itself. Neither imports the other."""

assert __name__.startswith("raftlog."), "import this room as raftlog.api"
