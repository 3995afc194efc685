"""Maelstrom's face: JSON messages on stdin and stdout instead of sockets, and its workloads instead of topics.

Jepsen's Maelstrom runs many nodes on one machine, routes every message between them itself, loses and delays some, and
judges what the clients saw. A node here is this project's own driver, journal and logs on a real directory; only the
way between processes is another one (`wire`). docs/MAELSTROM.md says what each workload promises.

The composition root, `raftlog maelstrom`, comes in through `MaelstromNode`. This room goes to the driver itself: there
are no topics, no controller and no brokers under it.
"""

from raftlog.api.maelstrom.node import MaelstromNode
from raftlog.api.maelstrom.settings import MaelstromSettings

__all__ = ["MaelstromNode", "MaelstromSettings"]
