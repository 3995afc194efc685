"""`raftlog serve`: puts a broker and its faces together, and logs what it does."""
