"""`raftlog produce`: records from lines of files or of standard input."""
