"""Where replicas and leaders shall be when brokers come, go and stay away.

Who may come in: the broker. `plan` is pure and says what to change; `balancer` looks on whoever leads the controller
and has the controller decide it; `moves` then moves the replicas, group by group.
"""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.balancing"
