"""Maelstrom's protocol: JSON messages on stdin and stdout in place of sockets, and workloads in place of topics.

Jepsen's Maelstrom runs many nodes on one machine, routes every message between them itself, loses and delays
some, and checks the histories of the clients. A node here is this project's own driver, journal and logs on a
real directory; only the transport between processes differs (`wire`). docs/MAELSTROM.md states the guarantees of
each workload.

The verb `raftlog maelstrom` uses `MaelstromNode`. This package calls the driver directly: it has no topics, no
controller and no brokers."""

from raftlog.api.maelstrom.node import MaelstromNode
from raftlog.api.maelstrom.settings import MaelstromSettings

__all__ = ["MaelstromNode", "MaelstromSettings"]
