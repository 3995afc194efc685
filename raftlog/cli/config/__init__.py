"""Verbs of `raftlog config`."""
