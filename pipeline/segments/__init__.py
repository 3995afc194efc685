"""Reader of log files without a broker: the data source `raftlog-segments`, and functions for the jobs.

`find_replicas` finds logs, `logs_in` chooses one replica of each partition, `splits_of` and `plan_segments` divide them
among tasks, `read_segment_split` reads one split."""
