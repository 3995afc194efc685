"""`raftlog user …`, `raftlog acl …` and `raftlog quota …`: users, permissions and client quotas of a cluster."""
