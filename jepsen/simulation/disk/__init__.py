"""Disk of simulated machines: it is in memory, and a power loss reverts unsynced writes."""
