"""Data source `raftlog`: topics read through brokers, as a batch or as a stream. `raftlog.pipeline.sink` writes.

`source` is loaded by Spark; `plan` requests the partitions from the brokers and divides them; `reading` runs in the
tasks, one for each split, and yields rows; `stream` decides where each micro-batch ends. Jobs use `plan.topics_there`,
`BrokerSplit` and `reading.read_split`."""
