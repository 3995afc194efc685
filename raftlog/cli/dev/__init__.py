"""`raftlog dev`, `demo` and `survival`: brokers on one machine, for people who try raftlog."""
