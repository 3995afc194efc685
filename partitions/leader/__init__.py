"""Requests that a node serves only as leader of the partition and never forwards, for Kafka's clients.

    append                    LeaderAppends → Replica.append, without the queue of `produce`
    fetch                     PartitionsFetch: one wait for many partitions; SessionFetch: many fetches of the same ones
    offsets, epochs, deletion LeaderOffsets
    leaders of topics         TopicLeaders, which asks other nodes
    transactions over HTTP    TransactionAppends, which any node accepts and forwards by one hop

Otherwise a replica that does not lead refuses at once (`NotLeader`), and nothing is forwarded. Called by listeners."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.leader"
