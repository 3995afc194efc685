"""Race: raftlog and other systems with the same client programs, on one machine in one run.

Each system has three nodes on loopback, all replicas on one disk. Nodes and load generators run at the same priority,
one system after another; every figure is a median of runs, reported with the CPU time of all other programs.
`systems` names the systems, `kafka_protocol`, `go_load` and `python_load` hold their measures."""
