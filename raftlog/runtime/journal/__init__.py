"""The journal of a process with many groups: hard state, entries and cuts of all of them, made durable by one sync.

The driver appends and flushes, takes checkpoints, and folds the journal when the process starts; offline readers use
`read_journal`. Files are touched only through `raftlog.storage.disk`. docs/JOURNAL.md describes it, and
docs/FORMATS.md, section 13, its bytes.
"""
