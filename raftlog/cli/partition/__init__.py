"""`raftlog partition …`: leaders, moves, recovery."""
