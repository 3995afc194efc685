"""Real clusters for tests: each broker is a process, on loopback, with faults on demand.

    with Cluster(3) as cluster:
        client = MyClient(cluster.addresses)
        cluster.nodes[cluster.leader("orders", 0)].kill()

Used by tests of programs that use raftlog, by this project's own tests and tools, and by the commands `dev` and `demo`.
The package reaches the brokers only through their command line, their HTTP API and the handshake between them. pytest
finds the plugin (`raftlog.testing.plugin`) by its entry point; no other module here needs pytest."""

from raftlog.testing.cluster import Cluster
from raftlog.testing.errors import BrokerFailed, BrokerNotReady
from raftlog.testing.network_conditions import CLIENTS, LinkCounters, NetworkConditions, TrafficCounters
from raftlog.testing.node import ClusterNode
from raftlog.testing.process import BrokerProcess

__all__ = [
    "CLIENTS",
    "BrokerFailed",
    "BrokerNotReady",
    "BrokerProcess",
    "Cluster",
    "ClusterNode",
    "LinkCounters",
    "NetworkConditions",
    "TrafficCounters",
]
