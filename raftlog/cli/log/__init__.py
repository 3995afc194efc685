"""`raftlog log …`: the files of a stopped log."""
