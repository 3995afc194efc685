"""Simulated disk beneath an unmodified broker: loses unsynced writes, is slow, fails or is full, or stalls its loop.

A C library (`shim/`), loaded into the broker by LD_PRELOAD, records everything that a power loss would undo. One
`NodeDisk` per broker returns the environment for its start, switches faults while it runs, simulates a power loss after
it has ended, and returns the observed effects. It works for any program whose files are below one directory.

The model is that of `jepsen.simulation.disk.simulated_disk`: only the guarantees of POSIX hold.
"""

from jepsen.disk.control import DiskCounters
from jepsen.disk.node_disk import NodeDisk
from jepsen.disk.power_loss import LossCounts
from jepsen.disk.shim_library import unsupported_reason

__all__ = ["DiskCounters", "LossCounts", "NodeDisk", "unsupported_reason"]
