"""`raftlog produce`: lines of files or of standard input become records."""
