"""Reading the files of logs without a broker: the data source `raftlog-segments`, and what the jobs use of it.

`replicas_in` finds logs, `logs_in` chooses one replica of each partition, `splits_of` and `plan_segments` divide them
among tasks, `read_segment_split` reads one split.
"""
