"""Data source `raftlog`: topics read through brokers, as a batch or as a stream. `raftlog.pipeline.sink` writes.

`source` is loaded by Spark; `plan` requests the partitions from the brokers and divides them; `fetcher` runs in the
tasks, one for each split, and yields rows; `stream` decides where each micro-batch ends. Jobs use
`plan.list_partitions`, `BrokerSplit` and `fetcher.read_split`."""
