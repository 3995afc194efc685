"""`raftlog consume`: output of records as lines."""
