"""Disk beneath an unmodified broker: loses unsynced writes, is slow, fails or is full, and its loop stalls.

A library in C (`shim/`), loaded into the broker by LD_PRELOAD, remembers what a loss of power would undo. One
`NodeDisk` per broker gives the environment to start it with, switches the faults while it runs, takes the power away
once it is dead, and says what was seen of each. Any program can be run under it whose files are below one directory.

The model is that of `jepsen.simulation.disk.simulated_disk`: POSIX rather than a friendly file system.
"""

from jepsen.disk.control import DiskCounters
from jepsen.disk.node_disk import NodeDisk
from jepsen.disk.power_loss import Lost
from jepsen.disk.shim_library import unsupported_reason

__all__ = ["DiskCounters", "Lost", "NodeDisk", "unsupported_reason"]
