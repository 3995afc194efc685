"""Transfer of data between replicas outside of Raft's messages: catch-up, installation, repair."""
