"""The faces of this project: HTTP, a broker's, which calls `raftlog.partitions.broker` and nothing below it; and
Maelstrom's, which has no broker and goes to the driver itself. They know nothing of each other."""

assert __name__.startswith("raftlog."), "import this room as raftlog.api"
