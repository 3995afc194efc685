"""`raftlog trace`: durations of the steps of produce requests."""
