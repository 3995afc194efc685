"""`raftlog serve`: composition of a broker and its listeners, and its log."""
