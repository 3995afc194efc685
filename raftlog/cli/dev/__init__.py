"""`raftlog dev`, `demo` and `survival`: brokers on one machine, to try raftlog."""
