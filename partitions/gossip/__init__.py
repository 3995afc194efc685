"""Gossip of a broker: hints about liveness, addresses and load of other brokers, and the cluster map for clients.

Called by the façade through `service`, `cluster_map` and `load`. Gossip never changes the log of a Raft group or the
controller's state: voters, leaders and assignments are the same with gossip switched off. The protocol is
`raftlog.membership`."""

from raftlog.partitions.gossip.settings import GossipSettings

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.gossip"

__all__ = ["GossipSettings"]
