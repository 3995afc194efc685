"""`raftlog group …`: consumer groups, their lag and their offsets."""
