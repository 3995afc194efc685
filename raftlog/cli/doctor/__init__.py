"""Verb `raftlog doctor`."""
