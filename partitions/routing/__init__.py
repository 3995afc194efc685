"""From any node to the leader of a partition: topics, who leads, forwarding between nodes, reads.

    Topics → Topic → Partition → ProduceQueue → the replica here, or another node's        reads go by `Router.call`

One hop: a node that is asked by another one serves what it leads itself, or refuses. Called by the broker.
"""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.routing"
