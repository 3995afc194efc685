"""The disk of simulated machines: in memory, and it forgets what was not synced."""
