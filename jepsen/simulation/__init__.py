"""Whole clusters in one process, in virtual time, from one seed.

Basic parts: `VirtualLoop` runs asyncio code of many nodes on clocks of their own, pauses and crashes them;
`SimulatedNetwork` connects them; disks are those of `jepsen.simulation.disk`. Nothing here reads a real clock,
a socket or a hash order, so a seed repeats a run to the last callback, and `loop.trace.digest()` proves it.

The other modules use these: `options` draws the options of a run, `cluster` and `machine` run the real driver,
`workload` writes and reads, `nemesis` and `faults` inject faults, `properties` and `promises` observe from outside,
`convergence` checks the recovery, `run` runs one seed. `python -m jepsen.simulation` runs many.
"""

from jepsen.simulation.network.links import LinkConditions
from jepsen.simulation.network.network import Drop, SimulatedNetwork
from jepsen.simulation.network.streams import Stream
from jepsen.simulation.network.switchboard import StreamTimes
from jepsen.simulation.node import Node, Process
from jepsen.simulation.trace import Trace
from jepsen.simulation.virtual_time.clock import NodeClock
from jepsen.simulation.virtual_time.forbidden import RealInputOutput
from jepsen.simulation.virtual_time.loop import Deadlock, Livelock, VirtualLoop

__all__ = [
    "Deadlock",
    "Drop",
    "LinkConditions",
    "Livelock",
    "Node",
    "NodeClock",
    "Process",
    "RealInputOutput",
    "SimulatedNetwork",
    "Stream",
    "StreamTimes",
    "Trace",
    "VirtualLoop",
]
