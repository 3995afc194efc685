"""What gossip is good for in a broker: who is up, as a hint; addresses and load; a picture of the cluster for clients.

Who may come in: the façade, by `service`, `cluster_map` and `load`. Nothing here changes what a group's log or the
controller says: voters, leaders and assignments are what they are with gossip switched off. The protocol is
`raftlog.membership`.
"""

from raftlog.partitions.gossip.settings import GossipSettings

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.gossip"

__all__ = ["GossipSettings"]
