"""Verbs `raftlog backup` and `raftlog restore`."""
