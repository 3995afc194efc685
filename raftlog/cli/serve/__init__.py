"""`raftlog serve`: options, composition and log of a broker and its listeners."""
