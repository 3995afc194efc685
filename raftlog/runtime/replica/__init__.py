"""Replica of one Raft group: its core, proposals, reads, rolls and trims."""
