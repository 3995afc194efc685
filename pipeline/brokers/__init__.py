"""The data source `raftlog`: topics read through brokers, as a batch or as a stream. Writing is
`raftlog.pipeline.sink`.

`source` is what Spark loads; `plan` asks the brokers what is there and divides it; `reading` runs in the tasks, one for
each split, and gives rows; `stream` decides how far each micro-batch goes. Jobs use `plan.topics_there`, `BrokerSplit`
and `reading.read_split`.
"""
