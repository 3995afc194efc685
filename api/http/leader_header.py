"""Header that names the leader of a partition when it is another broker, for clients to connect to directly."""

from typing import Final

from raftlog.partitions.broker import Broker
from raftlog.types import NodeId

LEADER_HEADER: Final = "X-Raftlog-Leader"
"""HOST:PORT of the broker that leads the partition, if another broker answered."""


def leader_header(broker: Broker, leader: NodeId | None) -> dict[str, str]:
    """Return the header with the leader's HTTP address; empty if this broker leads or the leader is unknown."""
    if leader is None or leader == broker.node_id:
        return {}
    addresses = broker.addresses_of(leader)
    return {LEADER_HEADER: addresses.http} if addresses is not None and addresses.http else {}
