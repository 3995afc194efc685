"""`raftlog consume`: records become lines."""
