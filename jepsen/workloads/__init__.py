"""Workloads of clients during faults, and the final reads. `python -m jepsen.workloads CONFIG` is one client.

    log          plain requests without retries; committed offsets of groups; a subscribed consumer
    plain        the same without a subscription, for systems whose groups have no members
    idempotent   `raftlog.client.Producer` writes, and retries requests without an answer
    compaction   the same with keys and tombstones, into compacted topics
    trimming     the writes of `plain`, while records are deleted all the time
    topics       topics that are deleted and created again while they are written and read
    register     each partition is a register: writes, and reads of the newest value
    groups       members that share partitions and commit, even when they are fenced
    transactions lists, transfers and read-process-write chains in transactions, over Kafka's protocol
    handlers     members that call a handler for each record, with `raftlog.client.HandlerLoop`

Each workload is a module of its name: the topics it needs (`PLAN`), and the roles of its clients (`begin`). All are
listed in `catalogue`; `roles` has the roles, `client` the process around them, `drain` the end of a test.

Every operation is written to a history in the format of `jepsen.checkers`. Outcomes follow from the answers as in
`raftlog.client`: ok, fail (it definitely did not happen), info (unknown). Clients use HTTP, or Kafka's protocol with a
client library (`adapters`)."""
