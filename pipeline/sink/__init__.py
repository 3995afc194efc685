"""Sink of `format("raftlog")`, which writes each row exactly once, in batch and streaming queries.

    writers → schema, settings (allowed columns and options)
            → attempt (one task) → sender (one topic-partition) → lane, unmatched (the next step)
                                 → marks (the record of a write), columns, partitioner (rows and their partitions)

docs/adr/0020 has the protocol and its proof. Called by the data source."""
