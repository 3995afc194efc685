"""Faults of a simulated cluster: their kinds, their times, and the bound on the damage to each Raft group."""
