"""Writing rows into topics, each exactly once, in batch and streaming queries: what happens behind `format("raftlog")`.

    writers → planning, settings (what may be written, and how)
            → writing (one task) → sending (one topic-partition) → lane, held (what to do next)
                                 → marks (what is recorded of a write), columns, placing (rows and where they go)

The protocol and why it holds: docs/adr/0020. Called by the data source; `write_rows` also by whoever runs tasks of its
own, as a replay does.
"""
