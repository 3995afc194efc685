"""Frames between processes: Raft messages, entries, bulk requests and msgpack as bytes, and back."""
