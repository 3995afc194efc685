"""`raftlog topic …`: topics, their settings, trims."""
