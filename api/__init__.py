"""Interfaces of the project: HTTP and the Kafka protocol for brokers, and Maelstrom's protocol.

`http` and `kafka` call `raftlog.partitions.broker` and nothing below it; `maelstrom` has no broker and calls the driver
itself. None imports another."""

assert __name__.startswith("raftlog."), "import this room as raftlog.api"
