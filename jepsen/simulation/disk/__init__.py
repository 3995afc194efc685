"""Disk of simulated machines: in memory; a power loss reverts unsynced writes."""
