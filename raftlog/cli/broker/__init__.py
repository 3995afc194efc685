"""`raftlog broker …`: brokers as operators see them."""
