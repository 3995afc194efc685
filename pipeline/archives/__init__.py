"""Archives: topics as Parquet files by topic, partition and date, with each record once.

    raftlog.pipeline.archive(spark, Brokers("127.0.0.1:8082"), "/lake/orders", topics=["orders"])

`archive` and `compaction` are the jobs, `reader` is for readers, `manifest`, `state` and `writer` are the chain of
commits that defines an archive, `parquet` the files, `files` the file system, `sources` the origins of rows.
Used through the public names of `raftlog.pipeline`, and by replay and verification."""
