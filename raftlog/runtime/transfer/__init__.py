"""Data that replicas get from each other outside of Raft's messages: catch-up, installation, repair."""
