"""Data source `raftlog`: topics read through brokers, as a batch or as a stream. `raftlog.pipeline.sink` writes.

Spark loads `source`. `plan` requests the partitions from the brokers and divides them into splits. `fetcher` runs in
tasks, one for each split, and yields rows. `stream` chooses the end of each micro-batch. Jobs use
`plan.list_partitions`, `BrokerSplit` and `fetcher.read_split`."""
