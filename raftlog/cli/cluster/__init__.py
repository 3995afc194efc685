"""`raftlog cluster …`: health, settings, members, upgrades, the secret of a cluster."""
