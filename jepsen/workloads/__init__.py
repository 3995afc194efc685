"""What clients do while faults happen, and what they read back at the end. `python -m jepsen.workloads CONFIG` is one
client process.

    log          plain requests, never repeated; watermarks of groups; somebody who subscribes
    plain        the same without a subscription, for systems whose groups have no members
    idempotent   `raftlog.client.Producer` writes, and repeats what has no answer
    compaction   the same with keys and tombstones, into compacted topics
    trimming     the writes of `plain`, and records that are deleted all the time
    topics       topics that are deleted and made again while they are written and read
    register     each partition is a register: writes, and reads of the newest value
    groups       members that share partitions and commit, also when they should not any more
    handlers     members that call a handler for each record, with `raftlog.client.HandlerLoop`

Each workload is a module of its name: the topics it wants (`PLAN`), and which roles its clients play (`begin`). All are
listed in `catalogue`; `roles` has the roles, `client` the process around them, `drain` the end of a test.

Every operation goes into a history in the format of `jepsen.checkers`. Outcomes are what `raftlog.client` makes of the
answers: ok, fail (it definitely did not happen), info (nobody knows). The service is reached through HTTP alone.
"""
