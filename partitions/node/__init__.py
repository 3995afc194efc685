"""One process of a cluster, below the façade: its identity, its disk, all its groups, its connections.

Imported by the façade of a broker and the composition root. A `Node` hosts thousands of Raft groups on one journal and
one transport; the purpose of the groups (topics, the controller) and the callers are not known here."""

from raftlog.partitions.node.background_loop import BackgroundLoop
from raftlog.partitions.node.environment import NodeEnvironment, NodeTransport, real_environment
from raftlog.partitions.node.leadership import Leadership
from raftlog.partitions.node.node import Node
from raftlog.partitions.node.requests import Handler, Request
from raftlog.partitions.node.settings import NodeSettings
from raftlog.runtime.node_identity import NodeIdentity

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.node"

__all__ = [
    "BackgroundLoop",
    "Handler",
    "Leadership",
    "Node",
    "NodeEnvironment",
    "NodeIdentity",
    "NodeSettings",
    "NodeTransport",
    "Request",
    "real_environment",
]
