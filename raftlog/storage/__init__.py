"""Storage: a segmented log on disk, and everything that touches files. It knows nothing of Raft.

`LoneLog` is a log without Raft; `SegmentedLog` is what a replica builds on. All file access goes through the protocol
in `disk`.
"""
