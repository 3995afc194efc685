"""`raftlog pipeline …`: jobs on Spark."""
