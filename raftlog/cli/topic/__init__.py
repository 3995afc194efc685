"""`raftlog topic …`: topics, their settings, and the trim of their records."""
