"""Path of a request from any node to the leader of a partition: topics, leaders, forwarding between nodes, reads.

    Topics → Topic → Partition → ProduceQueue → the replica here, or another node's        reads: `PartitionRouter.call`

One hop: a node serves a forwarded request itself if it leads the partition, or refuses it. Called by the broker."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.routing"
