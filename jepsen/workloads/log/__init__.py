"""The clients of all workloads: producers, readers, listers, committers, members of groups, over HTTP.

`python -m jepsen.workloads.log CONFIG` is one client process (`client`); `drain` reads everything back at the end.

    log          plain requests, never repeated; watermarks of groups
    idempotent   `raftlog.client.Producer` writes, and repeats what has no answer
    compaction   the same with keys and tombstones, into compacted topics
    groups       members that share partitions and commit, also when they should not any more

Every operation goes into a history in the format of `raftlog.checkers`. Outcomes are what `raftlog.client` makes of the
answers: ok, fail (it definitely did not happen), info (nobody knows). The service is reached through HTTP alone.
"""
