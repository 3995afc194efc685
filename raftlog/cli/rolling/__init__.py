"""`raftlog cluster rolling-restart`: every broker is restarted, one after another."""
