"""Disk of simulated machines: in memory, without unsynced writes after a power loss."""
