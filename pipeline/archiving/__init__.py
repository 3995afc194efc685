"""Archives: topics as Parquet files, partitioned by topic, partition and date, each record once.

    raftlog.pipeline.archive(spark, Brokers("127.0.0.1:8082"), "/lake/orders", topics=["orders"])

`archive` and `compacting` are the jobs, `reading` is for readers, `manifest`, `state` and `writing` are the chain of
commits that says what an archive is, `parquet` the files, `files` the file system, `sources` where rows come from.
Who may come in: the public names of `raftlog.pipeline`, replay and verification.
"""
