"""Storage: a segmented log on disk, and all file access. It does not depend on Raft.

`LoneLog` is a log without Raft; a replica builds on `SegmentedLog`. All file access goes through the protocol in
`disk`."""
